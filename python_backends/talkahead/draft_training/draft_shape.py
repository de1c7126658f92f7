"""Names of drafts: a drafter, and a size if not the usual, `heads-6`, `mtp-1`, `heads-blind`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Self

from talkahead.backbone.llama import Llama
from talkahead.drafting.draft_heads import BLOCK_SIZE, DraftHeads
from talkahead.drafting.mtp_modules import MtpModules

_SIZES = {"heads": 4, "mtp": 3, "draft_lm": 3}
"""A draft model needs the talker's third layer: there is the head that follows the text
(`training.train_talker.ALIGNMENT_HEAD`). Trained together for 400 steps, drafts of one, two and three layers
reached held-out losses of 3.95, 3.73 and 2.85 nats, and 1.34, 1.39 and 1.72 tokens a step."""
_SOFT = 0.8
"""Of the loss asks for the talker's own distribution: heads of an earlier talker that learned so were
followed further than with 0 or 0.5."""
_NAME = re.compile(rf"({'|'.join(_SIZES)})(?:-(\d+))?(-blind)?")


@dataclass(frozen=True)
class DraftShape:
    """What a name says.

    Args:
        size: heads, modules or layers.
        sees_tokens: heads and modules are told tokens; blind ones see hidden states alone, as they were
            published (Li et al. 2025, section II-A; Tian et al. 2025, section II-A), and learn likewise.
    """

    name: str
    drafter: str
    size: int
    sees_tokens: bool

    @classmethod
    def of(cls, name: str) -> Self:
        """Raises ValueError for what is no name of a draft."""
        found = _NAME.fullmatch(name)
        if found is None or (found[3] and found[1] == "draft_lm"):
            raise ValueError(name)
        return cls(name, found[1], int(found[2] or _SIZES[found[1]]), sees_tokens=not found[3])

    @property
    def options(self) -> str:
        """Of `talkahead drafts train`, which ask for it."""
        size = "" if self.size == _SIZES[self.drafter] else f" --heads {self.size}"
        return f"--drafter {self.drafter}{size}{'' if self.sees_tokens else ' --blind'}"

    @property
    def soft(self) -> float:
        """Share of the loss that asks for the talker's own distribution; the rest asks for the tokens."""
        return _SOFT if self.sees_tokens else 0.0

    @property
    def fades(self) -> bool:
        """Whether what guesses further ahead counts less (Li et al.), or all the same (Tian et al.)."""
        return self.sees_tokens or self.drafter == "heads"

    def begin(
        self,
        talker: Llama,
        block_size: int = BLOCK_SIZE,
        *,
        shares_tables: bool = False,
        output_rank: int | None = None,
    ) -> DraftHeads | MtpModules | Llama:
        """The draft before its first step: as near to the talker as it can be.

        Args:
            block_size, shares_tables: of heads.
            output_rank: of heads and modules that are told tokens.
        """
        output_rank = output_rank if self.sees_tokens else None
        if self.drafter == "heads":
            embeddings = talker.model.embed_tokens.weight if self.sees_tokens else None
            head = talker.lm_head.weight
            return DraftHeads.beginning_as(
                *(head, self.size, embeddings, block_size),
                shares_tables=shares_tables,
                output_rank=output_rank,
            )
        if self.drafter == "mtp":
            return MtpModules.beginning_as(
                talker, self.size, sees_tokens=self.sees_tokens, output_rank=output_rank
            )
        return first_layers(talker, self.size)


def first_layers(talker: Llama, layers: int) -> Llama:
    """The first `layers` layers of a talker, with its embeddings, last norm and head."""
    short = Llama(replace(talker.config, num_hidden_layers=layers))
    state = talker.state_dict()
    short.load_state_dict({name: state[name] for name in short.state_dict()})
    return short
