"""transformers' `LlamaForCausalLM.generate`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.config import RequestOptions
from transformers import LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from perf.talker.talker import Prompt, max_frames


class GenerateTalker:
    """A static batch of prompt embeddings, padded on the left."""

    def __init__(self, repository: Path, dtype: torch.dtype) -> None:
        folder = repository / "talker" / "1"
        disable_progress_bar()  # type: ignore[no-untyped-call]
        # Its own annotations of `generate` do not fit its classes.
        self._model: Any = LlamaForCausalLM.from_pretrained(folder, dtype=dtype)
        self._eos = DecoderConfig.from_file(folder / "config.json").eos
        self._dtype = dtype
        self._repository = repository

    @torch.inference_mode()
    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        longest = max(len(prompt) for prompt in prompts)
        rows = torch.zeros(len(prompts), longest, prompts[0].shape[1], dtype=self._dtype)
        mask = torch.zeros(len(prompts), longest, dtype=torch.int64)
        for index, prompt in enumerate(prompts):
            rows[index, longest - len(prompt) :] = torch.from_numpy(prompt)
            mask[index, longest - len(prompt) :] = 1
        tokens = self._model.generate(
            inputs_embeds=rows,
            attention_mask=mask,
            max_new_tokens=max_frames(options, self._repository),
            do_sample=options.temperature > 0,
            temperature=options.temperature or None,
            top_p=options.top_p,
            top_k=options.top_k,
            eos_token_id=self._eos,
            pad_token_id=self._eos,
        )
        return [list(takewhile(lambda token: token != self._eos, row)) for row in tokens.tolist()]

    def close(self) -> None:
        return
