"""The texts that a talker speaks for its drafts to learn from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from talkahead.errors import TalkaheadError

DEFAULT = Path(__file__).with_name("texts.txt")
_EVERY = 10
"""One text of so many is held out, and one is what trees are calibrated on."""


class Split(StrEnum):
    """What texts are for. None is in two of them: what is measured was not learned from."""

    TRAIN = "train"
    CALIBRATION = "calibration"
    HELD_OUT = "held-out"


def read_texts(path: Path) -> dict[Split, list[str]]:
    """One text a line; raises TalkaheadError where there are too few."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TalkaheadError(f"--texts {path} cannot be read: {error}") from error
    texts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if len(texts) < _EVERY:
        raise TalkaheadError(
            f"--texts {path} has {len(texts)} different texts; allowed: at least {_EVERY}, one a line, "
            "and the more they vary the better"
        )
    kept = [text for place, text in enumerate(texts) if place % _EVERY not in (0, _EVERY // 2)]
    return {
        Split.TRAIN: kept,
        Split.CALIBRATION: texts[_EVERY // 2 :: _EVERY],
        Split.HELD_OUT: texts[::_EVERY],
    }
