"""Teacher, codec and server on the same sentences, measured by a pool of processes.

What the teacher and the codec say never changes with the talker, so their appraisals are kept on disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from multiprocessing import get_context

import torch

from instruments.material import Sentence
from instruments.measures.appraisal import Appraisal, Appraiser
from instruments.recording import Recording
from instruments.setting import Setting, digest_of
from training.originals import Originals

TEACHER, CODEC, SERVER = "teacher", "codec", "server"


@dataclass(frozen=True)
class Row:
    """One sentence: what the teacher, the codec's copy of the teacher and, where there is one, the server
    made of it."""

    sentence: Sentence
    systems: Mapping[str, Appraisal]

    def duration_ratio(self, system: str) -> float:
        return self.systems[system].duration_s / self.systems[TEACHER].duration_s

    def keeps_every_phrase(self, system: str) -> bool:
        """Whether it skips and repeats no phrase, but for those that the teacher seems to as well."""
        own, teacher = self.systems[system], self.systems[TEACHER]
        return set(own.skipped) <= set(teacher.skipped) and set(own.repeated) <= set(teacher.repeated)


def compare(
    setting: Setting, sentences: Sequence[Sentence], served: Iterable[Recording | None], workers: int
) -> Iterator[Row]:
    """A row for each sentence, in order, while the server's recordings are still coming."""
    # Not by fork: the client's threads, which bring the recordings, would not live on in the children.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        jobs = [
            pool.submit(_row, setting, sentence, recording)
            for sentence, recording in zip(sentences, served, strict=True)
        ]
        for job in jobs:
            yield job.result()


class Bench:
    """Originals and instruments of one process."""

    def __init__(self, setting: Setting) -> None:
        torch.set_num_threads(1)
        self._setting = setting
        self._originals = Originals.load(setting.codec)
        self._appraiser = Appraiser()

    def row(self, sentence: Sentence, served: Recording | None) -> Row:
        systems = self._known(sentence)
        if served is not None:
            systems[SERVER] = self._appraiser.appraise(sentence.text, sentence.words, served)
        return Row(sentence, systems)

    def _known(self, sentence: Sentence) -> dict[str, Appraisal]:
        """The teacher's appraisal and the codec's."""
        name = digest_of(
            self._setting.digest.encode(), *(part.encode() for part in (sentence.text, sentence.voice))
        )
        path = self._setting.cache / f"{name}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            made = {system: asdict(appraisal) for system, appraisal in self._heard(sentence).items()}
            partial.write_text(json.dumps(made), encoding="utf-8")
            partial.rename(path)
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {system: Appraisal.from_json(fields) for system, fields in kept.items()}

    def _heard(self, sentence: Sentence) -> dict[str, Appraisal]:
        original = self._originals.say(sentence.words)
        appraise = partial(self._appraiser.appraise, sentence.text, sentence.words)
        return {
            TEACHER: appraise(original.teacher),
            CODEC: appraise(original.copy, aligned_with=original.teacher),
        }


@cache
def _bench(setting: Setting) -> Bench:
    return Bench(setting)


def _row(setting: Setting, sentence: Sentence, served: Recording | None) -> Row:
    return _bench(setting).row(sentence, served)
