"""What a drafter and a verifier are, and what passes between them and the step.

Shapes: B rows of the batch, N nodes, C codebooks, V vocabulary, D hidden size, F frames of history.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, TypeVar

from torch import Tensor

from talkahead.native_library import NativeCall
from talkahead.speculation.repetition_settings import RepetitionSettings
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings
from talkahead.speculation.token_tree import TokenTree, TreeShape

_Kept = TypeVar("_Kept")


class Preserves(StrEnum):
    """What a verifier promises about the tokens, compared with plain decoding; reports print it."""

    TOKENS = "same tokens"
    DISTRIBUTION = "same distribution"
    GROUPS = "same group distribution"
    NOTHING = "approximate"


@dataclass(frozen=True)
class DraftRequest:
    """What a step wants of a draft; a drafter that has less to offer proposes less.

    Args:
        nodes: of a row's tree at most, root included; None: as many as the drafter has by default.
        returns_probs: whether the verifier reads `draft_probs`.
        trials: see `Verifier`.
    """

    nodes: int | None = None
    returns_probs: bool = True
    trials: int = 1

    def length(self, most: int) -> int:
        """Tokens of a chain of at most `most`."""
        return most if self.nodes is None else min(most, self.nodes - 1)


@dataclass(frozen=True, eq=False)
class Context:
    """What is known of each running row when a step starts. Its columns are state, which only the step itself
    writes, and in place.

    Args:
        rows: the slots of the running rows (drafters keep their own state by slot).
        roots: int64 [B, C], drawn and not yet scored.
        positions: int64 [B], the frame index of the root in its segment.
        hidden: [B, D], the target's last hidden state, from which the root was drawn.
        frames: int64 [B, F, C], where a rule or a verifier looks back: the segment's so far; row b holds
            `positions[b] + 1` of them. Those in its prompt stand at the end: place -1 is before place 0.
        keys: int64 [B], the segment's key for `draws`.
        settings: temperature, top-k and top-p per row.
        draft_request: how much to draft.
        scratch: what native calls keep for the steps of this context, where they read and write its columns
            as they lie (contiguous, on the CPU, `hidden` in float32); else None. Trees and outcomes that are
            kept hold until the next step. A forward leaves no cache warm: making them anew is what calls
            would spend their time on.
        repetition: what rules on history go by, where there are any.
    """

    rows: Rows
    roots: Tensor
    positions: Tensor
    hidden: Tensor
    frames: Tensor
    keys: Tensor
    settings: SamplingSettings
    draft_request: DraftRequest = DraftRequest()
    scratch: dict[Hashable, Any] | None = None
    repetition: RepetitionSettings | None = None

    @cached_property
    def roots_alone(self) -> TokenTree:
        """Trees of nothing but the roots."""
        return TokenTree(self.roots[:, None])

    def keep(self, key: Hashable, make: Callable[[], _Kept]) -> _Kept:
        """What `make` made under this key in an earlier step, or makes now."""
        if self.scratch is None:
            return make()
        if key not in self.scratch:
            self.scratch[key] = make()
        found: _Kept = self.scratch[key]
        return found

    def of(self, lines: Tensor) -> Context:
        """Some of the rows, int64 [K], for a verifier: `rows` still names all of them."""
        return Context(
            rows=self.rows,
            roots=self.roots[lines],
            positions=self.positions[lines],
            hidden=self.hidden[lines],
            frames=self.frames[lines],
            keys=self.keys[lines],
            settings=self.settings[lines],
            draft_request=self.draft_request,
            repetition=None if self.repetition is None else self.repetition[lines],
        )


@dataclass(frozen=True)
class Scored:
    """The target's view of a tree: `logits` [B, N, V] of what follows each node, `hidden` [B, N, D]."""

    logits: Tensor
    hidden: Tensor


@dataclass(frozen=True)
class Accepted:
    """A path from the root, and the token drawn after it.

    Args:
        path: int64 [B, M], accepted nodes in order, node 0 first; beyond `counts` anything.
        counts: int64 [B], nodes on the path, at least 1.
        next_roots: int64 [B, C].
    """

    path: Tensor
    counts: Tensor
    next_roots: Tensor


@dataclass(frozen=True, eq=False)
class DraftCalls:
    """A drafter's part of a context's steps in native calls, which stay the same as long as the context.

    Args:
        tree: which `propose` fills; nothing has to, where it is the roots alone.
        observe: from what a step scores and accepts into, the calls that do what `Drafter.observe` does.
    """

    tree: TokenTree
    propose: tuple[NativeCall, ...] = ()
    observe: Callable[[Scored, Accepted], tuple[NativeCall, ...]] = lambda scored, accepted: ()


@dataclass(frozen=True, eq=False)
class AcceptCall:
    """A verifier's part of a context's steps, and what it accepts into."""

    accept: NativeCall
    accepted: Accepted


class Drafter(Protocol):
    """Guesses what follows the root. One with a KV of its own follows admissions."""

    @property
    def sees_prompt(self) -> bool:
        """Whether it wants the target's hidden states of prompts."""

    def propose(self, context: Context) -> TokenTree: ...

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        """What a step made of a tree, whoever proposed it; `context` is the one that the step began with."""

    def calls(self, context: Context) -> DraftCalls | None:
        """What `propose` and `observe` do with this context, in native calls; None where they do not."""

    def can_replay(self, rows: Rows) -> bool:
        """Whether what was recorded of a step does for these rows all that is to be done now."""

    def replayed(self, shape: TreeShape, rows: Rows) -> None:
        """A recorded step was done again, with trees of `shape`: what `observe` notes on the host besides."""

    def admit(
        self, slots: list[int], prompts: Tensor, lengths: list[int], hidden: Tensor | None = None
    ) -> None:
        """New segments: `prompts` [len(slots), P, D], each valid up to its length.

        Args:
            hidden: [len(slots), P, D], the target's states of the prompts, if the drafter `sees_prompt`.
        """

    def release(self, slot: int) -> None:
        """The slot's segment has ended."""


class Verifier(Protocol):
    """Decides which nodes of a scored tree are spoken."""

    @property
    def preserves(self) -> Preserves: ...

    @property
    def history_frames(self) -> int:
        """Frames of `Context.frames` that it looks back at; 0 when the tokens alone decide."""

    @property
    def trials(self) -> int:
        """The draws after each node that drafted tokens are compared with; 0: something else is."""

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted: ...

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall | None:
        """What `accept` does with what lies there each time, in a native call; None where there is none."""
