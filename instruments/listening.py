"""How well several systems say the same sentences: word errors and DNSMOS, each beside the first system.

    python -m instruments.listening build/teacher build/copy

Each folder holds NAME.wav for every NAME.txt of the first, which is the text that was asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instruments import report
from instruments.measures.ear import Ear
from instruments.measures.naturalness import OpinionScorer
from instruments.measures.word_errors import WordErrors, word_error_percent
from instruments.percentages import Difference
from instruments.recording import Recording


@dataclass(frozen=True)
class Take:
    """One sentence as a system said it and as it was judged."""

    errors: WordErrors
    p808: float


@dataclass(frozen=True)
class SystemFinding:
    """One system over all sentences; differences are to the first system's, sentence by sentence."""

    system: str
    sentences: int
    seconds: float
    word_errors_percent: float
    more_word_errors: Difference
    p808: float
    more_p808: Difference


class ListeningTest:
    """Judges systems with the instruments of one process.

    Args:
        texts: what every system was asked to say.
    """

    def __init__(self, texts: Sequence[str], threads: int = 1) -> None:
        self._texts = texts
        self._ear = Ear(threads)
        self._scorer = OpinionScorer(threads)

    def compare(self, systems: Mapping[str, Sequence[Recording]]) -> Iterator[SystemFinding]:
        """One finding for each system, given as its recordings of the texts; the first is the reference."""
        reference: list[Take] = []
        for name, recordings in systems.items():
            takes = self._takes(recordings)
            reference = reference or takes
            yield _finding(name, recordings, takes, reference)

    def _takes(self, recordings: Sequence[Recording]) -> list[Take]:
        errors = self._ear.errors(self._texts, recordings)
        scores = [self._scorer.p808(recording) for recording in recordings]
        return [Take(*judged) for judged in zip(errors, scores, strict=True)]


def _finding(
    name: str, recordings: Sequence[Recording], takes: Sequence[Take], reference: Sequence[Take]
) -> SystemFinding:
    pairs = list(zip(takes, reference, strict=True))
    return SystemFinding(
        name,
        len(takes),
        sum(recording.seconds for recording in recordings),
        word_error_percent(take.errors for take in takes),
        Difference.of_percents(
            [take.errors.edits - other.errors.edits for take, other in pairs],
            [take.errors.words for take in takes],
        ),
        float(np.mean([take.p808 for take in takes])),
        Difference.of_means([take.p808 - other.p808 for take, other in pairs]),
    )


def table(findings: Sequence[SystemFinding]) -> str:
    return report.table(
        [
            {
                "system": found.system,
                "sentences": str(found.sentences),
                "seconds": f"{found.seconds:.1f}",
                "word errors, %": f"{found.word_errors_percent:.1f}",
                "points more": str(found.more_word_errors),
                "DNSMOS p808": f"{found.p808:.2f}",
                "more": str(found.more_p808),
            }
            for found in findings
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="instruments.listening", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", help="one for each system, the reference first")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    names = [path.stem for path in sorted(options.folders[0].glob("*.txt"))]
    if not names:
        parser.error(f"{options.folders[0]}: no *.txt")
    texts = [(options.folders[0] / f"{name}.txt").read_text(encoding="utf-8") for name in names]
    systems = {
        str(folder): [Recording.read(folder / f"{name}.wav") for name in names] for folder in options.folders
    }
    print(table(list(ListeningTest(texts, options.threads).compare(systems))))


if __name__ == "__main__":
    main()
