"""Names of drafts: a drafter, and a size if not the usual, `heads-6`, `mtp-1`, `heads-blind`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Self

from talkahead.backbone.llama import Llama
from talkahead.drafting.draft_heads import BLOCK_SIZE, DraftHeads
from talkahead.drafting.mtp_modules import MtpModules

_SIZES = {"heads": 4, "mtp": 2, "draft_lm": 3}
"""A draft model needs the talker's third layer: there is the head that follows the text
(`training.train_talker.GUIDED`). Trained together for 400 steps, drafts of one, two and three layers reached
held-out losses of 3.95, 3.73 and 2.85 nats, and 1.34, 1.39 and 1.72 tokens a step."""
_NAME = re.compile(rf"({'|'.join(_SIZES)})(?:-(\d+))?(-blind)?")


@dataclass(frozen=True)
class DraftShape:
    """What a name says.

    Args:
        size: heads, modules or layers.
        sees_tokens: heads and modules are told tokens; a blind one sees hidden states alone.
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
            output_rank: of heads and modules.
        """
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


def first_heads(heads: DraftHeads, count: int) -> DraftHeads:
    """The first `count` of heads, which guess as they do among the others."""
    vocabulary, width = heads.vocab_size, heads.width
    fewer = DraftHeads(
        count,
        width,
        vocabulary,
        block_size=heads.block_size,
        num_blocks=heads.num_blocks,
        sees_tokens=heads.sees_tokens,
        output_rank=heads.output_rank,
    )
    state = heads.state_dict()
    fewer.load_state_dict({name: state[name] for name in fewer.state_dict()})
    return fewer


def first_layers(talker: Llama, layers: int) -> Llama:
    """The first `layers` layers of a talker, with its embeddings, last norm and head."""
    short = Llama(replace(talker.config, num_hidden_layers=layers))
    state = talker.state_dict()
    short.load_state_dict({name: state[name] for name in short.state_dict()})
    return short
