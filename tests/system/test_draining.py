"""SIGTERM: what is being spoken is spoken to its end, what comes anew is sent away."""

from __future__ import annotations

from typing import Any

import pytest
from hearing import SAME_FRAMES, difference, hear, speak
from served import served
from talkahead_client import Client, ServerUnavailable, SpeechError
from texts import SENTENCES

TEXT = " ".join(SENTENCES)
LONG_TEXT = " ".join([TEXT] * (15_000 // len(TEXT)))
"""Spoken for many seconds by the fastest server: until it has been told to stop twice."""
EXIT_TIMEOUT_S = 20


def test_running_streams_finish_and_new_ones_are_refused() -> None:
    with served("--exit-timeout", EXIT_TIMEOUT_S) as server, Client(server.grpc) as client:
        asked: list[dict[str, Any]] = [{"seed": seed, "max_seconds": 20.0} for seed in range(3)]
        alone = [speak(client, TEXT, **options).audio for options in asked]
        streams = [client.speak(TEXT, **options) for options in asked]
        begun = [next(stream) for stream in streams]
        server.ask_to_stop()
        server.wait_for("draining: 3 open streams")
        with pytest.raises(ServerUnavailable, match="shutting down"):
            speak(client, SENTENCES[0])
        for first, stream, audio in zip(begun, streams, alone, strict=True):
            assert difference(hear([first, *stream]).audio, audio) < SAME_FRAMES
        assert server.exit_status(limit_s=EXIT_TIMEOUT_S) == 0
        assert server.log.endswith("\nstopped")


def test_second_signal_stops_without_waiting() -> None:
    with served("--exit-timeout", "1") as server, Client(server.grpc) as client:
        speech = client.speak(LONG_TEXT)
        next(speech)
        server.ask_to_stop()
        server.wait_for("draining: 1 open stream")
        server.ask_to_stop()
        assert server.exit_status() == 0
        with pytest.raises(SpeechError):
            list(speech)
