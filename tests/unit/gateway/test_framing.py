from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
from talkahead_client import AudioChunk, Spoken, Stats, Word
from talkahead_gateway.framing import BareAudio, DetailedEvents, ServerSentEvents

STATS = replace(Stats(*[0] * 12), frames=40)
CHUNK = AudioChunk(np.zeros(1, np.float32), 0, 24_000, False, STATS, 0.1, (Word(3, 8, 0.25, Spoken.WORD),))


def test_events_carry_audio_and_then_what_it_cost() -> None:
    framing = ServerSentEvents()
    body = framing.piece(b"\x00\xff" * 300, CHUNK) + framing.piece(b"z", CHUNK) + framing.end(12, STATS)
    *lines, rest = body.split(b"\n\n")
    events = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    assert rest == b"" and all(line.startswith(b"data: ") and b"\n" not in line for line in lines)
    assert [event["type"] for event in events] == ["speech.audio.delta"] * 2 + ["speech.audio.done"]
    assert (
        base64.b64decode(events[0]["audio"]) + base64.b64decode(events[1]["audio"])
        == b"\x00\xff" * 300 + b"z"
    )
    assert events[2]["usage"] == {"input_tokens": 12, "output_tokens": 40, "total_tokens": 52}
    assert framing.media_type("audio/mpeg") == "text/event-stream"


def test_bare_audio_is_as_it_is() -> None:
    framing = BareAudio()
    assert framing.piece(b"abc", CHUNK) + framing.end(12, STATS) == b"abc"
    assert framing.media_type("audio/mpeg") == "audio/mpeg"


def test_detailed_events_tell_words_and_totals_as_well() -> None:
    plain, detailed = (
        json.loads(framing.piece(b"z", CHUNK).removeprefix(b"data: "))
        for framing in (ServerSentEvents(), DetailedEvents())
    )
    assert detailed.items() >= plain.items() and detailed.keys() - plain.keys() == {"words", "stats"}
    assert detailed["words"] == [{"char_start": 3, "char_end": 8, "start_s": 0.25, "kind": "word"}]
    assert detailed["stats"]["frames"] == 40 and detailed["stats"]["pair"] == "none+match"
