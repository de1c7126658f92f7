"""What `talkahead drafts train` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from talkahead.draft_training.draft_shape import DraftShape
from talkahead.draft_training.reader import VERSION
from talkahead.drafting.draft_files import CONFIG, draft_folder
from talkahead.drafting.drafters import DRAFTERS
from talkahead.errors import TalkaheadError


@dataclass(frozen=True)
class DraftOrder:
    """What is to be trained, and how.

    Args:
        minutes: of speech to learn from.
        heads: None: as many as usual.
        is_blind: heads or modules that are told no tokens.
        block_size: of each head; None: by the talker's width.
        steps: None: by the amount of speech.
        seconds: that learning may take.
        work: where what is not finished lies; None: a folder within the repository.
        keeps_prompts: of the talker's speech, for another draft that learns from it and reads them.
        folder: of the draft, beside the talker's others; None: named like the drafter, where it is served.
        replaces: whether a draft that is there gives way.
        start: a draft to begin from, as far as it fits; else, as near to the talker as can be.
    """

    repository: Path
    texts: Path
    drafter: str = "heads"
    minutes: float = 60.0
    heads: int | None = None
    is_blind: bool = False
    block_size: int | None = None
    steps: int | None = None
    seconds: float | None = None
    rate: float = 2.5e-3
    seed: int = 1
    device: str = "cpu"
    work: Path | None = None
    folder: str | None = None
    replaces: bool = False
    start: Path | None = None
    keeps_prompts: bool = False

    @property
    def talker(self) -> Path:
        return self.repository / "talker" / VERSION

    @property
    def destination(self) -> Path:
        return draft_folder(self.talker, self.name)

    @property
    def command(self) -> str:
        """Which draft it asks for, for its manifest."""
        folder = "" if self.folder is None else f" --folder {self.folder}"
        return f"talkahead drafts train {self.shape.options}{folder}"

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.folder or self.drafter

    @property
    def work_folder(self) -> Path:
        """Triton reads folders of a model that are named like versions alone."""
        return (self.work or self.repository / "talker" / "drafts-work") / self.name

    @property
    def reads_prompts(self) -> bool:
        """A draft model has layers of its own for them."""
        return self.drafter == "draft_lm"

    @property
    def shape(self) -> DraftShape:
        size, blind = f"-{self.heads}" if self.heads else "", "-blind" if self.is_blind else ""
        return DraftShape.of(f"{self.drafter}{size}{blind}")

    def check(self) -> None:
        """Raises TalkaheadError for what cannot begin."""
        if not (self.talker / CONFIG).exists():
            raise TalkaheadError(
                f"--repository {self.repository} holds no talker ({self.talker / CONFIG} is missing)"
            )
        if self.is_blind and self.drafter == "draft_lm":
            raise TalkaheadError("--blind: heads and modules may be; a draft_lm reads tokens alone")
        if self.folder in set(DRAFTERS) - {self.drafter}:
            raise TalkaheadError(
                f"--folder {self.folder}: there a draft of {self.folder} is served, none of {self.drafter}"
            )
        if self.device not in (allowed := _devices()):
            raise TalkaheadError(
                f"--device {self.device}: torch does not see it here; allowed: {', '.join(allowed)}"
            )
        if self.start is not None and not (self.start / CONFIG).exists():
            raise TalkaheadError(f"--start {self.start} holds no draft ({self.start / CONFIG} is missing)")
        if self.destination.exists() and not self.replaces:
            raise TalkaheadError(
                f"{self.destination} is there already; --replace trains another one in its place"
            )


def _devices() -> list[str]:
    gpus = range(torch.cuda.device_count())
    return ["cpu", *(["cuda"] if gpus else []), *(f"cuda:{number}" for number in gpus)]
