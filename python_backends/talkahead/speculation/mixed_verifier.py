"""Streams of one batch may be verified differently."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from talkahead.speculation.contracts import Accepted, Context, Preserves, Scored, Verifier
from talkahead.speculation.token_tree import TokenTree


class MixedVerifier:
    """Hands each row to the verifier that its slot was given; rows of equal verifiers go together.

    A row's outcome is what its verifier alone would have said: verifiers look at each row by itself.
    """

    preserves = Preserves.NOTHING

    def __init__(self, num_slots: int, default: Verifier) -> None:
        self._verifiers = [default] * num_slots
        self._parts: dict[tuple[int, int], list[tuple[Verifier, Tensor]]] = {}

    @property
    def history_frames(self) -> int:
        return max(verifier.history_frames for verifier in self._verifiers)

    def assign(self, slot: int, verifier: Verifier) -> None:
        """The slot's next segment is verified so. Give equal verifiers as one object."""
        if self._verifiers[slot] is not verifier:
            self._verifiers[slot] = verifier
            self._parts.clear()

    def move(self, source: int, target: int) -> None:
        self.assign(target, self._verifiers[source])

    def swap(self, first: int, second: int) -> None:
        one, other = self._verifiers[first], self._verifiers[second]
        self.assign(first, other)
        self.assign(second, one)

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        parts = self._parts_of(context.rows, tree.tokens.device)
        if len(parts) == 1:
            return parts[0][0].accept(tree, scored, context)
        outcomes = [
            (rows, verifier.accept(_tree_of(tree, rows), _scored_of(scored, rows), context.of(rows)))
            for verifier, rows in parts
        ]
        return _joined(outcomes)

    def _parts_of(self, rows: slice, device: torch.device) -> list[tuple[Verifier, Tensor]]:
        """Each verifier among the running rows, and its rows, int64; kept until one changes."""
        parts = self._parts.get((rows.start, rows.stop))
        if parts is None:
            chosen = self._verifiers[rows]
            parts = [
                (one, torch.tensor([row for row, own in enumerate(chosen) if own is one], device=device))
                for one in {id(verifier): verifier for verifier in chosen}.values()
            ]
            self._parts[rows.start, rows.stop] = parts
        return parts


def _tree_of(tree: TokenTree, rows: Tensor) -> TokenTree:
    probs = None if tree.draft_probs is None else tree.draft_probs[rows]
    return dataclasses.replace(tree, tokens=tree.tokens[rows], draft_probs=probs)


def _scored_of(scored: Scored, rows: Tensor) -> Scored:
    return Scored(scored.logits[rows], scored.hidden[rows])


def _joined(outcomes: list[tuple[Tensor, Accepted]]) -> Accepted:
    """The outcomes in the order of the rows."""
    order = torch.cat([rows for rows, _ in outcomes]).argsort()
    parts = [accepted for _, accepted in outcomes]
    return Accepted(
        torch.cat([one.path for one in parts])[order],
        torch.cat([one.counts for one in parts])[order],
        torch.cat([one.next_roots for one in parts])[order],
    )
