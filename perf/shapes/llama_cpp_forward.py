"""llama.cpp's forwards: the extra `llama`."""

from __future__ import annotations

import ctypes
from pathlib import Path

import llama_cpp
import numpy as np
from talkahead.backbone.checkpoint import Checkpoint

from perf.shapes.forward import Call, parameters_read
from perf.talker.gguf_file import TYPES, write_gguf
from perf.talker.llama_cpp_talker import Batch, context_settings, load_model

_BYTES_PER_WEIGHT = {"bfloat16": 2.0, "Q8_0": 34 / 32, "Q4_0": 18 / 32}
"""The latter two keep blocks of 32 weights with a scale of two bytes."""
_KV_BYTES = 2
"""It keeps keys and values in float16."""
PRECISIONS = tuple(_BYTES_PER_WEIGHT)
assert set(PRECISIONS) <= set(TYPES)


class LlamaCppForward:
    """Chains instead of trees: as many rows after as many positions.

    Args:
        cache: positions that every slot holds.
        rows, nodes: at most.
    """

    def __init__(self, folder: Path, precision: str, cache: int, rows: int, nodes: int, threads: int) -> None:
        checkpoint = Checkpoint(folder)
        config = checkpoint.config
        path = folder / f"{precision}.gguf"
        if not path.exists():
            half = path.with_suffix(".half")
            write_gguf(folder, precision, half)
            half.rename(path)
        self._model = load_model(path)
        positions = rows * (cache + nodes)
        self._context = llama_cpp.llama_init_from_model(
            self._model, context_settings(positions, rows, threads)
        )
        assert self._context, "llama.cpp makes no context"
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._cache = cache
        self._prompt, self._tokens = Batch(cache, config.hidden_size), Batch(rows * nodes, 0)
        self._prompt.embeddings[:] = np.random.default_rng(0).standard_normal((cache, config.hidden_size))
        self._tokens.tokens[:] = np.random.default_rng(0).integers(config.vocab_size, size=rows * nodes)
        for slot in range(rows):
            self._fill(slot)
        kv_values = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
        self.memory_bytes = path.stat().st_size + positions * kv_values * _KV_BYTES
        self.weight_bytes = round(parameters_read(checkpoint) * _BYTES_PER_WEIGHT[precision])

    def prefill(self) -> Call:
        return lambda: self._fill(0)

    def step(self, rows: int, nodes: int) -> Call:
        streams = np.repeat(np.arange(rows), nodes).tolist()
        positions = self._cache + np.tile(np.arange(nodes), rows)
        everywhere = list(range(rows * nodes))

        def decode() -> None:
            self._tokens.place(streams, positions, everywhere)
            self._decode(self._tokens)
            for row in range(rows):
                llama_cpp.llama_memory_seq_rm(self._memory, row, self._cache, -1)

        return decode

    def close(self) -> None:
        self._prompt.close()
        self._tokens.close()
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def _fill(self, slot: int) -> None:
        llama_cpp.llama_memory_seq_rm(self._memory, slot, -1, -1)
        self._prompt.place([slot] * self._cache, np.arange(self._cache), [self._cache - 1])
        self._decode(self._prompt)

    def _decode(self, batch: Batch) -> None:
        status = llama_cpp.llama_decode(self._context, batch.raw)
        assert status == 0, f"llama_decode: {status}"
        # The decode may still be under way when it returns.
        llama_cpp.llama_synchronize(self._context)
        assert ctypes.cast(llama_cpp.llama_get_logits(self._context), ctypes.c_void_p).value
