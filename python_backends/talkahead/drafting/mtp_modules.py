"""Multi-token prediction: decoder layers in cascade after a frozen talker, each one token further ahead.

After Llasa+ (Tian et al. 2025, section II-A): each module normalises the hidden states of the one before,
projects them, and has one Llama layer; the frozen LM head reads all of them. A module may also be told the
token that follows (DeepSeek-V3, 2024, section 2.2; the seed's variant DPSK): the target has drawn the root by
the time that a draft is made, and what follows depends on it.

Shapes: B rows, T positions, D hidden size, K modules, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.drafting.narrow_output import NarrowOutput


class MtpModule(nn.Module):
    """One module. The layer and the norm after it are a Llama of one layer, so that decoders can serve it.

    Args:
        config: the target's.
        sees_tokens: whether it is told the token that it continues.
        has_norm: whether a norm of its own stands before the target's head.
    """

    def __init__(self, config: DecoderConfig, *, sees_tokens: bool, has_norm: bool = True) -> None:
        super().__init__()
        width = config.hidden_size
        self.hidden_norm = nn.RMSNorm(width, eps=config.rms_norm_eps)
        self.token_norm = nn.RMSNorm(width, eps=config.rms_norm_eps) if sees_tokens else None
        self.projector = nn.Linear(2 * width if sees_tokens else width, width)
        self.decoder = Llama(replace(config, num_hidden_layers=1))
        # It reads rows, and the target's head reads it.
        self.decoder.register_module("lm_head", None)
        self.decoder.model.register_module("embed_tokens", None)
        if not has_norm:
            self.decoder.model.register_module("norm", nn.Identity())

    @torch.no_grad()
    def begin_as(self, target: Llama) -> None:
        """With the target's last layer and norm, after a projector that passes hidden states on."""
        last = target.model.layers[target.config.num_hidden_layers - 1]
        self.decoder.model.layers[0].load_state_dict(last.state_dict())
        if isinstance(self.decoder.model.norm, nn.RMSNorm):
            self.decoder.model.norm.load_state_dict(target.model.norm.state_dict())
        nn.init.normal_(self.projector.weight, std=0.02)
        self.projector.weight[:, : len(self.projector.weight)] += torch.eye(len(self.projector.weight))
        self.projector.bias.zero_()

    def inputs(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """What the layer sees: hidden states of the module before, [B, T, D], and the tokens that they
        guessed, as they came, embedded [B, T, D]."""
        return self.joined(hidden, self.token_rows(embedded))

    def token_rows(self, embedded: Tensor) -> Tensor:
        """The tokens' part of the projection, [..., D], of each token alone; of a blind module [D]."""
        bias = self.projector.bias
        if self.token_norm is None:
            return bias
        weight = self.projector.weight[:, len(bias) :]
        return functional.linear(self.token_norm(embedded), weight, bias)

    def joined(self, hidden: Tensor, token_rows: Tensor) -> Tensor:
        """The hidden states' part of the projection, added to the tokens', [..., D]."""
        weight = self.projector.weight[:, : hidden.shape[-1]]
        projected = functional.linear(self.hidden_norm(hidden), weight) + token_rows
        return projected.to(hidden.dtype)  # where training narrows products, sums stay wide

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Hidden states [B, T, D] from those of the module before, over all positions from the first on."""
        states: Tensor = self.decoder(self.inputs(hidden, embedded)).hidden
        return states


class MtpModules(nn.Module):
    """The cascade. Module k, from 1, at the position whose hidden state draws frame i, guesses frame i + k.

    Positions are those of frames, from the first on: the prompt's own hidden states are not looked at, which
    leaves a decoder free not to tell them; the states of the frames know the text. Published modules begin
    with the prompt's first row, where there is no token to be told.

    Args:
        sees_tokens, has_norm: see `MtpModule`.
        sees_prompt: only of modules that see no tokens.
        output_rank: of an output that all modules share, in place of the target's head; None: they have none.
    """

    def __init__(
        self,
        config: DecoderConfig,
        num_modules: int,
        *,
        sees_tokens: bool,
        has_norm: bool = True,
        sees_prompt: bool = False,
        output_rank: int | None = None,
    ) -> None:
        super().__init__()
        assert not (sees_prompt and sees_tokens), "a prompt has rows, not tokens"
        self.config = replace(config, num_hidden_layers=1)
        self.sees_tokens, self.has_norm, self.sees_prompt = sees_tokens, has_norm, sees_prompt
        self.cascade = nn.ModuleList(
            MtpModule(config, sees_tokens=sees_tokens, has_norm=has_norm) for _ in range(num_modules)
        )
        self.lm_head: NarrowOutput | None = None
        if output_rank is not None:
            self.lm_head = NarrowOutput(config.hidden_size, config.vocab_size, output_rank)

    @classmethod
    def beginning_as(
        cls, target: Llama, num_modules: int, *, sees_tokens: bool, output_rank: int | None = None
    ) -> Self:
        modules = cls(target.config, num_modules, sees_tokens=sees_tokens, output_rank=output_rank)
        for module in modules:
            module.begin_as(target)
        if modules.lm_head is not None:
            modules.lm_head.begin_as(target.lm_head.weight)
        return modules

    @property
    def output_rank(self) -> int | None:
        return None if self.lm_head is None else self.lm_head.inner.out_features

    def __iter__(self) -> Iterator[MtpModule]:
        return cast(Iterator[MtpModule], iter(self.cascade))

    def __len__(self) -> int:
        return len(self.cascade)

    def forward(self, hidden: Tensor, embedded: Tensor) -> list[Tensor]:
        """Of each module its hidden states [B, T - k + 1, D].

        Args:
            hidden: [B, T, D], the target's, from which the frames were drawn.
            embedded: [B, T, D], these frames.
        """
        states, found = hidden, []
        for behind, module in enumerate(self):
            tokens = embedded[:, behind:]
            states = module(states[:, : tokens.shape[1]], tokens)
            found.append(states)
        return found
