"""Steps of the same rows, one after the other in one C call (`native/steps.c`), where all of them is native.

On a CPU the interpreter takes a quarter of a step that is taken alone, much of it to find its own data again:
a forward leaves no cache warm.

Shapes: S running rows, M tokens that a step adds to a row at most, K steps, T tokens of all of them.
"""

from __future__ import annotations

from ctypes import Array, addressof, byref
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.engine.method import Method
from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeCall, load_library
from talkahead.speculation import native_walk
from talkahead.speculation.contracts import Context, Scored
from talkahead.speculation.history_rules import NO_RULES
from talkahead.speculation.token_tree import TokenTree, TreeShape

SOURCE = Path(__file__).parent / "native" / "steps.c"
_Steps, _CCall, _Stop = (native_struct(SOURCE, name) for name in ("steps", "call", "stop"))
_MOST = 16
"""Steps of a call."""


class Bell:
    """Rung by any thread, it has steps that are taken one after the other end, until it is silenced."""

    def __init__(self) -> None:
        self._rung: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)

    def ring(self) -> None:
        self._rung[0] = 1

    def silence(self) -> None:
        self._rung[0] = 0

    @property
    def address(self) -> int:
        return self._rung.ctypes.data


@dataclass(frozen=True)
class Stop:
    """Where steps that are taken one after the other end, after the first one at the earliest.

    Args:
        tokens: int64 [S]: where a row has so many more, or its end of speech.
        bell: when it has been rung.
        seconds: when these have passed.
    """

    tokens: npt.NDArray[np.int64]
    bell: Bell
    seconds: float


@dataclass(frozen=True)
class Stride:
    """What steps have added to their rows.

    Args:
        tokens: int64 [S, T, 1], in order; of row s as many as all steps added to it. As wide as a step's at
            least.
        by_step: int64 [K, S], how many each step did.
    """

    tokens: npt.NDArray[np.int64]
    by_step: npt.NDArray[np.int64]


class ScoreRoom:
    """Where steps score, one after the other: 16 rows alone take a megabyte."""

    def __init__(self) -> None:
        self._logits, self._hidden = torch.empty(0, 0), torch.empty(0, 0)

    def of(self, tree: TokenTree, backbone: NativeDecoder) -> Scored:
        shape, nodes = (tree.num_rows, tree.num_nodes), tree.num_rows * tree.num_nodes
        if nodes > len(self._logits):
            # What was made before keeps its own: as each is twice as large, all take no more than one more.
            size = 1 << (nodes - 1).bit_length()
            self._logits = torch.empty(size, backbone.vocab_size)
            self._hidden = torch.empty(size, backbone.hidden_size)
        return Scored(self._logits[:nodes].view(*shape, -1), self._hidden[:nodes].view(*shape, -1))


class NativeSteps:
    """Of the rows of one context, drafted for and verified by one method.

    Args:
        calls: of a step, in their order.
        counts, added: [S] and [S, M, 1], which they fill.
        shape: of the trees.
    """

    def __init__(
        self,
        calls: list[NativeCall],
        counts: torch.Tensor,
        added: torch.Tensor,
        shape: TreeShape,
        eos: int,
    ) -> None:
        self.shape = shape
        self._library = load_library(SOURCE)
        rows, most, _ = added.shape
        self._most = most
        listed: Array[NativeStruct] = (_CCall * len(calls))(
            *(_CCall(function=one.address, given=addressof(one.given)) for one in calls)
        )
        self._tokens = np.zeros((rows, _MOST * most), dtype=np.int64)
        self._totals = np.zeros(rows, dtype=np.int64)
        self._by_step = np.zeros((_MOST, rows), dtype=np.int64)
        self._steps = _Steps(
            num_calls=len(calls),
            calls=listed,
            rows=rows,
            most=most,
            most_steps=_MOST,
            counts=counts.data_ptr(),
            added=added.data_ptr(),
            eos=eos,
            tokens=self._tokens.ctypes.data,
            totals=self._totals.ctypes.data,
            by_step=self._by_step.ctypes.data,
        )
        self._held = (calls, counts, added, listed)

    @classmethod
    def of(
        cls, method: Method, backbone: NativeDecoder, context: Context, scores: ScoreRoom
    ) -> NativeSteps | None:
        """Of whatever rows stand in the context; None where a part of a step is not native, or something is
        done between its parts."""
        if method.rules != NO_RULES:
            return None
        draft = method.drafter.calls(context)
        if draft is None:
            return None
        tree, rows = draft.tree, context.rows
        scored = scores.of(tree, backbone)
        score = backbone.score_call(tree, rows, scored)
        verify = method.verifier.call(tree, scored, context)
        if verify is None:
            return None
        accepted = verify.accepted
        advance = native_walk.advance_call(tree, scored, accepted, context)
        commit = backbone.commit_call(accepted, tree.shape, rows)
        observe = draft.observe(scored, accepted)
        calls = [*draft.propose, score, verify.accept, commit, *observe, advance.advance]
        return cls(calls, accepted.counts, advance.added, tree.shape, backbone.eos)

    def run(self, stop: Stop | None) -> Stride:
        """Steps until there, or one; raises IndexError where rows do not fit their slots, or tokens are not
        of the vocabulary."""
        where = None if stop is None else byref(_native(stop))
        done = self._library.talkahead_steps(byref(self._steps), where)
        if done < 0:
            raise IndexError("rows do not fit their slots, or tokens are not of the vocabulary")
        width = max(int(self._totals.max()), self._most)
        return Stride(self._tokens[:, :width, None].copy(), self._by_step[:done].copy())


def _native(stop: Stop) -> NativeStruct:
    native = _Stop(
        until=stop.tokens.ctypes.data, is_asked=stop.bell.address, nanoseconds=int(1e9 * stop.seconds)
    )
    native.held = stop
    return native
