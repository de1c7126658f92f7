"""How hard the talker is to guess: bits per token of its own speech. Speed-ups are to be read beside it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from talkahead.backbone.llama import load_llama
from talkahead.draft_training.own_speech import RecordingDrafter
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.sampling import SamplingSettings, probabilities
from torch.nn import functional

from perf.speculation.methods import PLAIN, Talker
from perf.speculation.runner import Loop, Runner


@dataclass(frozen=True)
class Surprise:
    """Means over the tokens of plain decoding.

    Args:
        bits: -log2 of the token drawn, under the distribution that it was drawn from.
        entropy_bits: of the talker's distribution at temperature 1, all tokens.
        likeliest: share of the tokens that were the most likely one.
    """

    tokens: int
    bits: float
    entropy_bits: float
    likeliest: float


@torch.inference_mode()
def surprise(runner: Runner, sentences: int) -> Surprise:
    loop = runner.loop(PLAIN, 16)
    recorded = Loop(loop.decoder, RecordingDrafter(), MatchVerifier())
    said = runner.speak(recorded, PLAIN, range(sentences), runner.seed)
    # The first token of each is left out: it is drawn without the end of speech.
    hidden = torch.cat([torch.stack(one.hidden[1:]) for one in said if len(one.hidden) > 1])
    drawn = torch.cat([torch.tensor(one.tokens[1 : len(one.hidden)]) for one in said])
    head = load_llama(runner.found.talker(Talker.SHIPPED))[1]["lm_head.weight"]
    logits = functional.linear(hidden, head)
    settings = SamplingSettings.of(
        torch.full((1,), runner.sampling.temperature, dtype=torch.float64),
        torch.full((1,), runner.sampling.top_k),
        torch.full((1,), runner.sampling.top_p, dtype=torch.float64),
    )
    chances = probabilities(logits[None], settings)[0].gather(1, drawn[:, None])
    logs = logits.double().log_softmax(-1)
    return Surprise(
        tokens=len(drawn),
        # What float32 rounds across the nucleus' edge has no chance left; it is one token in many thousands.
        bits=float(-chances[chances > 0].log2().mean()),
        entropy_bits=float(-(logs.exp() * logs).sum(-1).mean() / torch.log(torch.tensor(2.0))),
        likeliest=float((logits.argmax(-1) == drawn).double().mean()),
    )
