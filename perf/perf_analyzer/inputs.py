"""What each model is asked: `tts` and `frontend` texts, `encoder` what the frontend makes of these, `vocoder`
first windows of streams of their own.

The talker is asked by `tts` alone: it waits until the codec has acknowledged what it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
from talkahead.config import FIRST_CHUNK_MS
from talkahead.speech_format import SpeechFormat
from talkahead.types import Stats, StopReason, WindowHeader
from tritonclient.grpc import InferenceServerClient, InferInput, InferResult

Entry = dict[str, Any]
"""One request's tensors, as perf_analyzer reads them."""

PATIENT = {"urgency": 1}
"""Nobody speaks what the frontend alone is asked: it must not count who would be waiting."""
Answers = SimpleQueue[tuple[InferResult | None, Exception | None]]

_SEGMENTS = ("SYMBOLS", "REFERENCE", "SEGMENT", "WORDS")
_STREAMS = 4_096
"""As each of its windows is a stream's first and last, the vocoder keeps nothing of them."""


def of_texts(texts: Sequence[str], voice: str | None) -> list[Entry]:
    voiced = {} if voice is None else {"VOICE": [voice]}
    return [{"TEXT": [text], **voiced} for text in texts]


def of_encoder(server: str, texts: Sequence[str]) -> list[Entry]:
    """Each text's first segment."""
    return [
        {name: _tensor(found.as_numpy(name)[0]) for name in _SEGMENTS} for found in _segments(server, texts)
    ]


def of_vocoder(repository: Path) -> list[Entry]:
    """Codes drawn at random, as many as a first window has."""
    speech = SpeechFormat.read(repository / "vocoder" / "1")
    new, ahead = speech.frames_covering(FIRST_CHUNK_MS), speech.lookahead_frames
    draw, shape = np.random.default_rng(0), (new + ahead, len(speech.codebooks))
    return [
        _window(stream, new, ahead, draw.integers(0, speech.codebooks, shape).astype(np.int32))
        for stream in range(1, _STREAMS + 1)
    ]


def _window(stream: int, new: int, lookahead: int, codes: npt.NDArray[np.int32]) -> Entry:
    header = WindowHeader(
        address=0,
        stream=stream,
        generation=0,
        chunk=0,
        sequence=stream,
        context=0,
        new=new,
        lookahead=lookahead,
        last=1,
        reason=StopReason.END_OF_SPEECH,
    )
    stats = np.zeros(len(Stats.__dataclass_fields__), np.int64)
    words = np.zeros((0, 4), np.int32)
    tensors: dict[str, npt.NDArray[Any]] = {
        "FRAMES": codes,
        "WINDOW": header.to_array(),
        "STATS": stats,
        "WORDS": words,
    }
    return {name: _tensor(values) for name, values in tensors.items()}


def _segments(server: str, texts: Sequence[str]) -> Iterator[InferResult]:
    answers: Answers = SimpleQueue()
    with InferenceServerClient(server) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for place, text in enumerate(texts):
            asked = InferInput("TEXT", [1, 1], "BYTES")
            asked.set_data_from_numpy(np.array([[text.encode()]], np.object_))
            client.async_stream_infer("frontend", [asked], request_id=str(place), parameters=PATIENT)
            yield _first(answers, str(place))
        client.stop_stream()


def _first(answers: Answers, request_id: str) -> InferResult:
    """That answers the request; further segments of those before it are left out."""
    while True:
        found, error = answers.get()
        if found is None:
            raise SystemExit(f"the frontend refused a text: {error}")
        if found.get_response().id == request_id:
            return found


def _tensor(values: npt.NDArray[Any]) -> Entry:
    return {"content": values.reshape(-1).tolist(), "shape": list(values.shape)}
