"""Groups of tokens that the target hardly tells apart, from its embeddings.

Acoustic similarity groups of Yanuka et al. 2025, section 2.1. Groups overlap: a token's probability is split
in equal parts over the groups that hold it (equation 3), so that groups have probabilities that sum to 1.

Shapes: B rows, V vocabulary, M groups, E memberships, D embedding size.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

_LANES = 16
"""Rows are padded to a multiple of it: sums over groups then run in vectors."""
_BLOCK = 512
"""Tokens whose cosines with all others are there at once."""
_KEY = np.dtype(">u4")
"""Of a group's tokens, by which groups are told apart and ordered: the highest bytes come first."""


@dataclass(frozen=True, eq=False)
class SimilarityGroups:
    """Which tokens each group holds, and which groups hold each token.

    Args:
        members: int64 [E], the tokens of the first group in order, then those of the second, ...
        starts: int64 [M], where each group begins in `members`.
        owners: int64 [E], the groups of the first token in order, then those of the second, ...
        owner_starts: int64 [V], where each token begins in `owners`.
        num_owners: int64 [V], N(t): in how many groups each token is, at least 1.
    """

    members: Tensor
    starts: Tensor
    owners: Tensor
    owner_starts: Tensor
    num_owners: Tensor

    @classmethod
    def of(cls, embeddings: Tensor, threshold: float, alone: Collection[int] = ()) -> Self:
        """For each token those whose embedding has a cosine above `threshold` with its own (equation 1).

        Equal groups count once, in the order of their tokens. A token is in its own group whatever the
        rounding.

        Args:
            embeddings: [V, D].
            threshold: from -1 to 1; at 1, and in practice well below, each token is a group.
            alone: tokens that are no sound (end of speech): each is a group of its own and in no other.
        """
        unit = functional.normalize(embeddings.to(torch.float64), dim=1)
        single = torch.tensor(sorted(alone), dtype=torch.int64, device=unit.device)
        found: set[bytes] = set()
        # Block by block: all cosines of 65,536 tokens at once would take 34 GB.
        for first in range(0, len(unit), _BLOCK):
            own = torch.arange(first, min(first + _BLOCK, len(unit)), device=unit.device)
            is_member = (unit[own] @ unit.T).clamp_(-1.0, 1.0) > threshold
            is_member[torch.isin(own, single)] = False
            is_member[:, single] = False
            is_member[own - first, own] = True
            members, sizes = is_member.nonzero()[:, 1].cpu().numpy(), is_member.sum(1).cpu().numpy()
            found.update(one.astype(_KEY).tobytes() for one in np.split(members, sizes.cumsum()[:-1]))
        groups = [np.frombuffer(one, _KEY).astype(np.int64) for one in sorted(found)]
        tokens = torch.from_numpy(np.concatenate(groups)).to(unit.device)
        return cls.from_sizes(tokens, torch.tensor(list(map(len, groups)), device=unit.device), len(unit))

    @classmethod
    def from_sizes(cls, members: Tensor, sizes: Tensor, num_tokens: int) -> Self:
        """From the groups' tokens int64 [E], one group after the other, and how many each has, int64 [M]."""
        num_owners = torch.bincount(members, minlength=num_tokens)
        assert bool((num_owners > 0).all()), "a token in no group"
        assert bool((sizes > 0).all()), "an empty group"
        groups = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)
        owners = groups[members.argsort(stable=True)]
        return cls(members, sizes.cumsum(0) - sizes, owners, num_owners.cumsum(0) - num_owners, num_owners)

    def to(self, device: torch.device) -> SimilarityGroups:
        return SimilarityGroups(*(getattr(self, field.name).to(device) for field in fields(self)))

    @property
    def num_groups(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Tensor:
        """int64 [M]."""
        return self.runs[1].diff()

    @property
    def runs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Members and where each group begins, [M + 1]; owners and where each token's begin, [V + 1].

        The last entry is where the last one ends.
        """
        end = self.starts.new_tensor([len(self.members)])
        return self.members, torch.cat([self.starts, end]), self.owners, torch.cat([self.owner_starts, end])

    @property
    def mean_size(self) -> float:
        return len(self.members) / self.num_groups

    @property
    def largest_size(self) -> int:
        return int(self.sizes.max())

    def masses(self, probs: Tensor) -> Tensor:
        """[B, M] from [B, V]: each token's probability in equal parts over its groups (equation 5)."""
        return _sums(probs / self.num_owners, self.members, self.starts)

    def label(self, tokens: Tensor, chances: Tensor) -> Tensor:
        """One of each token's groups, int64 [B]; all are as likely (equation 6)."""
        count = self.num_owners[tokens]
        which = (chances * count).to(torch.int64).clamp_max(count - 1)
        return self.owners[self.owner_starts[tokens] + which]

    def token_weights(self, probs: Tensor, left: Tensor) -> Tensor:
        """[B, V]: a group in proportion to `left` [B, M], then a token of it as in `probs` (equation 10)."""
        masses = self.masses(probs)
        shares = torch.where(masses > 0, left / masses, 0.0)
        return probs / self.num_owners * _sums(shares, self.owners, self.owner_starts)


def cosine_of(embeddings: Tensor, mean_size: float) -> float:
    """The threshold above which a token has `mean_size` neighbours on average, itself among them."""
    unit = functional.normalize(embeddings.to(torch.float32), dim=1)
    cosines = (unit @ unit.T).fill_diagonal_(2.0).flatten()
    count = max(1, min(round(mean_size * len(unit)), len(cosines) - 1))
    return round(float(cosines.kthvalue(len(cosines) - count).values), 4)


def _sums(values: Tensor, entries: Tensor, starts: Tensor) -> Tensor:
    """Sums of runs of `entries`: [B, K] to [B, len(starts)]. A row's sums are its own."""
    count = len(values)
    table = functional.pad(values.T, (0, -count % _LANES)).contiguous()
    return functional.embedding_bag(entries, table, starts, mode="sum")[:, :count].T
