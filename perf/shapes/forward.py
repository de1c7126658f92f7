"""Forwards that are timed: prompts into slots, and tokens after what slots hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.decoder_choice import DecoderChoice, Precision, load_decoder
from talkahead.backbone.native_matrix import weight_bytes
from talkahead.backbone.reach_choice import settle_reach
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_PARENT, TokenTree, TreeShape

Call = Callable[[], object]


class Forward(Protocol):
    """A loaded talker. A call may be repeated: it leaves what slots hold as it was."""

    @property
    def weight_bytes(self) -> int:
        """Read by every forward."""

    @property
    def memory_bytes(self) -> int:
        """Of weights, keys and values."""

    def prefill(self) -> Call:
        """A prompt into one slot."""

    def step(self, rows: int, nodes: int) -> Call:
        """So many tokens after each of `rows` slots, a tree, or a chain where there are no trees."""

    def close(self) -> None: ...


class OurForward:
    """The talker's decoder, by default the native one.

    Args:
        cache: positions that every slot holds.
        rows, nodes: at most.

    Raises:
        TalkaheadError: it cannot be had here.
    """

    def __init__(
        self,
        folder: Path,
        precision: Precision,
        cache: int,
        rows: int,
        nodes: int,
        choice: DecoderChoice = DecoderChoice.NATIVE,
    ) -> None:
        checkpoint = Checkpoint(folder)
        self._config = checkpoint.config
        self._decoder = load_decoder(
            checkpoint.config,
            checkpoint,
            num_slots=rows,
            max_positions=cache + nodes,
            max_nodes=nodes,
            dtype=precision.dtype,
            choice=choice,
        )
        settle_reach(self._decoder)
        self._prompt = torch.randn(1, cache, checkpoint.config.hidden_size)
        for slot in range(rows):
            self._decoder.prefill([slot], self._prompt, [cache])
        self.memory_bytes = self._decoder.memory.total
        self.weight_bytes = round(parameters_read(checkpoint) * weight_bytes(precision.dtype))

    def prefill(self) -> Call:
        return lambda: self._decoder.prefill([0], self._prompt, [self._prompt.shape[1]])

    def step(self, rows: int, nodes: int) -> Call:
        tree = TokenTree(torch.randint(self._config.vocab_size, (rows, nodes, 1)), bushy(nodes))
        running = Rows.of(range(rows))
        return lambda: self._decoder.score(tree, running)

    def close(self) -> None:
        del self._decoder


def parameters_read(checkpoint: Checkpoint) -> int:
    """By a forward: of the embeddings just the rows that it is fed, unless they are the head as well."""
    config = checkpoint.config
    unread = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    return checkpoint.num_bytes // torch.bfloat16.itemsize - unread


def bushy(nodes: int) -> TreeShape:
    """Every node has three children."""
    return TreeShape((ROOT_PARENT, *((node - 1) // 3 for node in range(1, nodes))))
