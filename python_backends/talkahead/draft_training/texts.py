"""The texts that a talker speaks for its drafts to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from talkahead.errors import TalkaheadError

DEFAULT = Path(__file__).with_name("texts.txt")
_EVERY = 10
"""One text of so many is held out, and one is what trees are calibrated on."""


@dataclass(frozen=True)
class Texts:
    """No text is in two of the three: what is measured was not learned from."""

    train: tuple[str, ...]
    calibration: tuple[str, ...]
    held_out: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
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
        return cls(tuple(kept), tuple(texts[_EVERY // 2 :: _EVERY]), tuple(texts[::_EVERY]))

    def __len__(self) -> int:
        return len(self.train) + len(self.calibration) + len(self.held_out)
