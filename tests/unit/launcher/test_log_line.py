"""A line of the log as text, and as JSON that what collects logs can ask for requests."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from talkahead.launcher.log_line import LogLevel, LogLine

NOON = datetime(2026, 1, 2, 12, 0, 0, 5_000, tzinfo=UTC)


def entry(line: LogLine) -> dict[str, Any]:
    written = line.json(NOON)
    assert "\n" not in written
    read: dict[str, Any] = json.loads(written)
    return read


def test_a_line_has_time_level_message_and_source() -> None:
    line = LogLine("stub is not healthy", LogLevel.ERROR, "pb_stub.cc:3", "03:02:02.682")
    assert entry(line) == {
        "time": "2026-01-02T12:00:00.005+00:00",
        "level": "error",
        "message": "stub is not healthy",
        "source": "pb_stub.cc:3",
    }
    assert str(line) == "03:02:02.682 error   stub is not healthy  (pb_stub.cc:3)"


@pytest.mark.parametrize(
    "text",
    [
        "stream 7 (request 'call 3'): nothing has become of chunk 1",
        "[request id: call 3] Server is stopping",
    ],
)
def test_what_is_about_a_request_carries_its_id(text: str) -> None:
    assert entry(LogLine(text))["request_id"] == "call 3"


def test_a_request_without_an_id_has_none() -> None:
    assert "request_id" not in entry(LogLine("stream 7 (request '') ended"))


def test_figures_at_the_end_are_fields_and_cannot_pose_as_others() -> None:
    read = entry(LogLine('stream 7 (request \'a\') ended: {"frames": 80, "level": "none"}'))
    assert (read["message"], read["frames"]) == ("stream 7 (request 'a') ended", 80)
    assert read["level"] == "info"
    assert entry(LogLine("a set: {1, 2}"))["message"] == "a set: {1, 2}"


def test_where_a_line_comes_from_is_told() -> None:
    assert entry(LogLine("stopped"))["source"] == "talkahead"
    printed = LogLine("weights: 3 MiB", is_printed=True)
    assert entry(printed)["source"] == "models" and str(printed) == "             weights: 3 MiB"


def test_several_lines_are_one() -> None:
    assert entry(LogLine("model tts did not load: x\nat y", LogLevel.ERROR))["message"].endswith("x\nat y")
    assert str(LogLine("no room", LogLevel.ERROR)) == "error: no room"
