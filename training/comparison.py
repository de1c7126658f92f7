"""Teacher, codec and a talker on the same sentences, measured by a pool of processes.

What the teacher and the codec say never changes with the talker, so their appraisals are kept on disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context

import numpy as np
import torch
from talkahead.audio.codec import Codec

from instruments.material import Sentence
from instruments.measures.appraisal import Appraisal, appraise
from instruments.measures.frames import Audio, to_int16
from instruments.recogniser import Recogniser
from instruments.setting import Setting, digest_of
from instruments.teacher import Teacher
from training.dataset import encode


@dataclass(frozen=True)
class Row:
    """One sentence: what the teacher, the codec's copy of the teacher, and the talker made of it."""

    sentence: Sentence
    teacher: Appraisal
    codec: Appraisal
    talker: Appraisal

    @property
    def duration_ratio(self) -> float:
        return self.talker.duration_s / self.teacher.duration_s

    @property
    def keeps_every_phrase(self) -> bool:
        """Whether the talker skips and repeats no phrase, but for those that the teacher seems to as well."""
        skipped = set(self.talker.skipped) - set(self.teacher.skipped)
        repeated = set(self.talker.repeated) - set(self.teacher.repeated)
        return not skipped and not repeated


def compare(
    setting: Setting, sentences: Sequence[Sentence], audios: Iterable[Audio], workers: int
) -> Iterator[Row]:
    """A row for each sentence, in order, while `audios` (the talker's) are still coming."""
    # Not by fork: the client's threads, which bring the audios, would not live on in the children.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        jobs = [
            pool.submit(_row, setting, sentence, audio)
            for sentence, audio in zip(sentences, audios, strict=True)
        ]
        for job in jobs:
            yield job.result()


def resynthesize(codec: Codec, audio: Audio) -> Audio:
    """The codec's own copy: the floor of what a talker on these codes can reach."""
    with torch.inference_mode():
        codes = torch.from_numpy(encode(codec, [audio])[0].astype(np.int64))
        return to_int16(codec.decode(codes[None])[0].numpy())


class Bench:
    """The instruments of one process."""

    def __init__(self, setting: Setting) -> None:
        torch.set_num_threads(1)
        self._setting = setting
        self._teacher = Teacher()
        self._codec = Codec.load(setting.codec)
        self._recogniser = Recogniser(setting.texts, self._teacher)

    def row(self, sentence: Sentence, audio: Audio) -> Row:
        taught = self._teacher.speak(sentence.words, sentence.voice).audio
        known = self._known(sentence, taught)
        return Row(sentence, *known, appraise(self._recogniser, sentence.words, audio, taught))

    def _known(self, sentence: Sentence, taught: Audio) -> tuple[Appraisal, Appraisal]:
        """The teacher's appraisal and the codec's."""
        name = digest_of(self._setting.digest.encode(), sentence.words.encode(), sentence.voice.encode())
        path = self._setting.cache / f"{name}.json"
        if not path.exists():
            sounds = (taught, resynthesize(self._codec, taught))
            made = [appraise(self._recogniser, sentence.words, sound, taught) for sound in sounds]
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps([asdict(appraisal) for appraisal in made]))
            partial.rename(path)
        teacher, codec = (Appraisal.from_json(kept) for kept in json.loads(path.read_text()))
        return teacher, codec


@cache
def _bench(setting: Setting) -> Bench:
    return Bench(setting)


def _row(setting: Setting, sentence: Sentence, audio: Audio) -> Row:
    return _bench(setting).row(sentence, audio)
