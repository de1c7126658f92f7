"""What is heard of one sentence: words, naturalness, and how it ends. The same audio is heard once, ever."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from talkahead.audio.speech_edges import AFTER_S, speech_span
from talkahead.families.contracts import Codec, CodecWindow
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat
from talkahead.text import TextFrontend

from instruments.material import Sentence
from instruments.measures.duration import LONGEST, SHORTEST
from instruments.measures.ear import Ear
from instruments.measures.naturalness import OpinionScorer
from instruments.measures.word_errors import WordErrors
from instruments.neural_teacher import NeuralTeacher
from instruments.recording import Recording
from instruments.setting import Setting

_CUT_S = AFTER_S / 5
"""One frame. The corpus has AFTER_S of silence after the speech; with less than this, speech was cut."""
_LATE_S = AFTER_S + 0.25


class Ending(StrEnum):
    RIGHT = "right"
    NEVER = "never"
    """It was stopped: the end of speech did not come."""
    SHORT = "short"
    LONG = "long"
    """Beyond what `measures.duration` takes for right, of the teacher's duration."""
    CUT = "cut"
    LATE = "late"
    """The end of speech came within the last sound, or long after it."""


@dataclass(frozen=True)
class Evaluation:
    """One sentence as it was spoken.

    Args:
        edits: between the words heard and those of the text, of which there are `words`.
        p808: DNSMOS.
        tail_s: silence after the speech.
    """

    duration_s: float
    teacher_s: float
    edits: int
    words: int
    heard: str
    p808: float
    tail_s: float

    def ending(self, *, has_ended: bool) -> Ending:
        if not has_ended:
            return Ending.NEVER
        ratio = self.duration_s / self.teacher_s
        if not SHORTEST <= ratio <= LONGEST:
            return Ending.SHORT if ratio < SHORTEST else Ending.LONG
        if not _CUT_S <= self.tail_s <= _LATE_S:
            return Ending.CUT if self.tail_s < _CUT_S else Ending.LATE
        return Ending.RIGHT


class Listener:
    """The instruments of one process."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.num_heard = 0
        """Sentences that were not known from disk."""

    @cached_property
    def _teacher(self) -> NeuralTeacher:
        return NeuralTeacher()

    @cached_property
    def _frontend(self) -> TextFrontend:
        return TextFrontend()

    @cached_property
    def _format(self) -> SpeechFormat:
        return SpeechFormat.read(self._setting.codec)

    @cached_property
    def _codec(self) -> Codec:
        return load_family(self._format.family).codec(self._setting.codec, torch.device("cpu"))

    @cached_property
    def _ear(self) -> Ear:
        return Ear()

    @cached_property
    def _scorer(self) -> OpinionScorer:
        return OpinionScorer()

    def hear(self, sentence: Sentence, frames: Sequence[int]) -> Evaluation:
        """What the codec makes of these codes."""
        path = self._path(sentence, json.dumps(list(frames)))
        if not path.exists():
            codes = np.array(frames, np.int64)[:, None]
            (made,) = self._codec.decode([CodecWindow.whole(codes)], [None])
            self._keep(path, sentence, Recording(made.audio, self._format.sample_rate_hz))
        return Evaluation(**json.loads(path.read_text(encoding="utf-8")))

    def hear_teacher(self, sentence: Sentence) -> Evaluation:
        path = self._path(sentence, "teacher")
        if not path.exists():
            self._keep(path, sentence, self._taught(sentence))
        return Evaluation(**json.loads(path.read_text(encoding="utf-8")))

    def _path(self, sentence: Sentence, spoken: str) -> Path:
        parts = (self._setting.digest, sentence.words, sentence.voice, spoken)
        name = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._setting.cache / name[:2] / f"{name}.json"

    def _taught(self, sentence: Sentence) -> Recording:
        (segment,) = self._frontend.segments(sentence.words)
        return self._teacher.recording(segment.spoken)

    def _keep(self, path: Path, sentence: Sentence, recording: Recording) -> None:
        self.num_heard += 1
        errors = WordErrors.between(sentence.words, self._ear.hear(recording))
        _, beyond = speech_span(recording.samples, recording.rate_hz)
        heard = Evaluation(
            duration_s=recording.seconds,
            teacher_s=self._taught(sentence).seconds,
            edits=errors.edits,
            words=errors.words,
            heard=errors.heard,
            p808=self._scorer.p808(recording),
            tail_s=(len(recording.samples) - beyond) / recording.rate_hz,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(heard)), encoding="utf-8")
        partial.rename(path)
