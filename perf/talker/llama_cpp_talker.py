"""llama.cpp by its low-level interface: all streams in one context, one decode a step for all that speak."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import llama_cpp
import numpy as np
import numpy.typing as npt
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.config import RequestOptions

from perf.talker.gguf_file import write_gguf
from perf.talker.talker import Prompt, max_frames

_ERRORS = 4
"""Level of its log."""


def _show(level: int, text: bytes, _: ctypes.c_void_p) -> None:
    if level == _ERRORS:
        print(text.decode(errors="replace"), end="", file=sys.stderr)


_LOG = llama_cpp.llama_log_callback(_show)
"""It is called for as long as the library lives."""


def features() -> str:
    """What it was compiled for."""
    said: bytes = llama_cpp.llama_print_system_info()
    return said.decode().strip(" |")


def load_model(path: Path) -> llama_cpp.llama_model_p:
    """The model of a GGUF file that `write_gguf` wrote."""
    llama_cpp.llama_log_set(_LOG, ctypes.c_void_p())
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(bytes(path), llama_cpp.llama_model_default_params())
    assert model, "llama.cpp does not load what we wrote"
    return model


class LlamaCppTalker:
    """Prompts go in as embeddings, frames as tokens; each stream is drawn by a sampler chain of its own."""

    def __init__(self, repository: Path, num_streams: int, precision: str, threads: int) -> None:
        talker = repository / "talker" / "1"
        config = DecoderConfig.from_file(talker / "config.json")
        self._eos = config.eos
        self._repository = repository
        with TemporaryDirectory(prefix="talker-gguf-") as folder:
            path = Path(folder) / "talker.gguf"
            write_gguf(talker, precision, path)
            self._model = load_model(path)
        positions = num_streams * config.max_position_embeddings
        self._context = llama_cpp.llama_init_from_model(
            self._model, context_settings(positions, num_streams, threads)
        )
        assert self._context, "llama.cpp makes no context"
        self._prompts = Batch(positions, config.hidden_size)
        self._tokens = Batch(num_streams, 0)

    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> list[list[int]]:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), False)
        samplers = [_sampler(options, seed + index) for index in range(len(prompts))]
        spoken: list[list[int]] = [[] for _ in prompts]
        speaking = list(range(len(prompts)))
        longest = max_frames(options, self._repository)
        rows = self._read(prompts)
        while speaking:
            drawn = [
                llama_cpp.llama_sampler_sample(samplers[stream], self._context, row)
                for stream, row in zip(speaking, rows, strict=True)
            ]
            for stream, token in zip(speaking, drawn, strict=True):
                if token != self._eos:
                    spoken[stream].append(token)
            speaking = [
                stream
                for stream, token in zip(speaking, drawn, strict=True)
                if token != self._eos and len(spoken[stream]) < longest
            ]
            rows = self._go_on(speaking, prompts, spoken) if speaking else []
        for sampler in samplers:
            llama_cpp.llama_sampler_free(sampler)
        return spoken

    def close(self) -> None:
        self._prompts.close()
        self._tokens.close()
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def _read(self, prompts: Sequence[Prompt]) -> list[int]:
        """All prompts at once; returns the rows of their last positions."""
        lengths = [len(prompt) for prompt in prompts]
        ends = [sum(lengths[: index + 1]) - 1 for index in range(len(lengths))]
        self._prompts.embeddings[: sum(lengths)] = np.concatenate(prompts)
        streams = np.repeat(np.arange(len(lengths)), lengths)
        positions = np.concatenate([np.arange(length) for length in lengths])
        self._decode(self._prompts, streams.tolist(), positions, wanted=ends)
        return ends

    def _go_on(
        self, speaking: Sequence[int], prompts: Sequence[Prompt], spoken: Sequence[list[int]]
    ) -> list[int]:
        """The last token of each stream that speaks."""
        self._tokens.tokens[: len(speaking)] = [spoken[stream][-1] for stream in speaking]
        positions = np.array([len(prompts[stream]) + len(spoken[stream]) - 1 for stream in speaking])
        rows = list(range(len(speaking)))
        self._decode(self._tokens, speaking, positions, wanted=rows)
        return rows

    def _decode(
        self, batch: Batch, streams: Sequence[int], positions: npt.NDArray[np.int64], wanted: Sequence[int]
    ) -> None:
        batch.place(streams, positions, wanted)
        status = llama_cpp.llama_decode(self._context, batch.raw)
        assert status == 0, f"llama_decode: {status}"


class Batch:
    """Rows for one decode, seen as arrays; of embeddings where they have a width, else of tokens."""

    def __init__(self, rows: int, width: int) -> None:
        self.raw = llama_cpp.llama_batch_init(rows, width, 1)
        if width:
            self.embeddings = np.ctypeslib.as_array(self.raw.embd, (rows, width))
        else:
            self.tokens = np.ctypeslib.as_array(self.raw.token, (rows,))
        self._positions = np.ctypeslib.as_array(self.raw.pos, (rows,))
        self._is_wanted = np.ctypeslib.as_array(self.raw.logits, (rows,))
        np.ctypeslib.as_array(self.raw.n_seq_id, (rows,))[:] = 1

    def place(self, streams: Sequence[int], positions: npt.NDArray[np.int64], wanted: Sequence[int]) -> None:
        self.raw.n_tokens = len(streams)
        self._positions[: len(streams)] = positions
        self._is_wanted[: len(streams)] = 0
        self._is_wanted[wanted] = 1
        for row, stream in enumerate(streams):
            self.raw.seq_id[row][0] = stream

    def close(self) -> None:
        llama_cpp.llama_batch_free(self.raw)


def context_settings(positions: int, num_streams: int, threads: int) -> llama_cpp.llama_context_params:
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = positions
    settings.n_seq_max = num_streams
    settings.n_threads = settings.n_threads_batch = threads
    return settings


def _sampler(options: RequestOptions, seed: int) -> llama_cpp.llama_sampler_p:
    """In the order that the engine and `generate` narrow in."""
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    if options.temperature == 0:
        parts = [llama_cpp.llama_sampler_init_greedy()]
    else:
        parts = [
            llama_cpp.llama_sampler_init_temp(options.temperature),
            *([llama_cpp.llama_sampler_init_top_k(options.top_k)] if options.top_k else []),
            llama_cpp.llama_sampler_init_top_p(options.top_p, 1),
            llama_cpp.llama_sampler_init_dist(seed),
        ]
    for part in parts:
        llama_cpp.llama_sampler_chain_add(chain, part)
    return chain
