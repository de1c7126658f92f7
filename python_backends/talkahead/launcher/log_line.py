"""A line of the server's log, as people read it, and as JSON for what collects logs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any

_REQUEST = re.compile(r"\(request '(?P<ours>[^']*)'\)|\[request id: (?P<tritons>[^\]]*)\]")
_FIELDS = re.compile(r"(?P<text>.*): (?P<fields>\{.*\})")


class LogLevel(IntEnum):
    """What is shown: everything at least this grave."""

    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


class LogFormat(StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"

    def write(self, line: LogLine) -> str:
        return line.json(datetime.now(UTC)) if self is LogFormat.JSON else str(line)


@dataclass(frozen=True)
class LogLine:
    """What was said, and where it comes from.

    Args:
        text: as its writer had it; a JSON object at its end is figures about what it says.
        source: a file and its line; empty: the launcher itself.
        time: of the day; empty where the writer told none.
        is_printed: it was printed by a model's process, past Triton's log.
    """

    text: str
    level: LogLevel = LogLevel.INFO
    source: str = ""
    time: str = ""
    is_printed: bool = False

    def __str__(self) -> str:
        if self.is_printed:
            return f"             {self.text}"
        if self.source:
            return f"{self.time} {self.level.name.lower():7} {self.text}  ({self.source})"
        return f"error: {self.text}" if self.level is LogLevel.ERROR else self.text

    def json(self, now: datetime) -> str:
        """One line. What it says of a request carries that request's id."""
        text, fields = _told(self.text)
        request = _REQUEST.search(text)
        name = request and (request["ours"] or request["tritons"])
        entry: dict[str, Any] = {
            "time": now.isoformat(timespec="milliseconds"),
            "level": self.level.name.lower(),
            "message": text,
            "source": self.source or ("models" if self.is_printed else "talkahead"),
        }
        if name:
            entry["request_id"] = name
        return json.dumps({**fields, **entry})


def _told(text: str) -> tuple[str, dict[str, Any]]:
    """A text without the figures at its end, and those."""
    if match := _FIELDS.fullmatch(text):
        try:
            return match["text"], json.loads(match["fields"])
        except ValueError:
            pass
    return text, {}
