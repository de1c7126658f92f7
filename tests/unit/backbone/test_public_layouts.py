"""What transformers saves is served as transformers computes it: all layouts, by both decoders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from public_checkpoints import KINDS, saved, transformers
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree, TreeShape
from torch import Tensor

EXACT = 1e-9
NEAR = {torch.float32: 1e-4, torch.bfloat16: 0.15}
"""Largest error of a logit, as a share of the logits' spread. Weights are what a bfloat16 file holds."""
STEPS = 30
Decoder = SlotDecoder | NativeDecoder


@pytest.fixture(autouse=True)
def in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers goes through float32 for norms and rotations, whatever the type of a model."""
    monkeypatch.setattr(torch, "float", torch.float64)
    for name in ("llama", "qwen2", "qwen3"):
        module = getattr(transformers.models, name)
        modeling = getattr(module, f"modeling_{name}")
        norm = getattr(modeling, f"{name.capitalize()}RMSNorm")
        monkeypatch.setattr(norm, "forward", _norm)


def _norm(self: torch.nn.Module, x: Tensor) -> Tensor:
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


class Reference:
    """transformers in float64, and a prompt in its embeddings."""

    def __init__(self, folder: Path) -> None:
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
        self.width = self.model.config.hidden_size
        generator = torch.Generator().manual_seed(5)
        self.prompt = torch.randn((21, self.width), generator=generator, dtype=torch.float64)

    @torch.inference_mode()
    def logits(self, tokens: list[int]) -> Tensor:
        """What follows the prompt and each of the tokens, [1 + T, V]."""
        embedded = self.model.get_input_embeddings()(torch.tensor(tokens, dtype=torch.int64))
        rows = torch.cat([self.prompt, embedded])
        found: Tensor = self.model(inputs_embeds=rows[None]).logits[0, len(self.prompt) - 1 :]
        return found

    def greedy(self) -> list[int]:
        spoken = self.model.generate(
            inputs_embeds=self.prompt[None], max_new_tokens=STEPS, do_sample=False, eos_token_id=None
        )
        listed: list[int] = spoken[0].tolist()
        return listed


def speak(decoder: Decoder, prompt: Tensor, first: Tensor | None = None) -> Iterator[Tensor]:
    """Logits [V] after the prompt and each of the best tokens, or of one that is given and then the best."""
    rows, ones = Rows.of([1]), torch.ones(1, dtype=torch.int64)
    logits = decoder.prefill([1], prompt[None], [len(prompt)]).logits[0, 0]
    while True:
        yield logits
        root = (logits.argmax() if first is None else first)[None, None, None]
        first = None
        logits = decoder.score(TokenTree(root), rows).logits[0, 0]
        decoder.commit(Accepted(torch.zeros_like(ones)[:, None], ones, root[:, 0]), ROOT_ALONE, rows)


@pytest.mark.parametrize("shard", ["50GB", "60kB"], ids=["one file", "shards"])
def test_float64_is_transformers(kind: str, shard: str, tmp_path: Path) -> None:
    """Through a prompt and steps; the tokens of greedy decoding are the same."""
    found = Checkpoint(saved(kind, tmp_path, shard=shard))
    reference = Reference(tmp_path)
    decoder = SlotDecoder(found.config, found, num_slots=2, max_positions=80, dtype=torch.float64)
    told = [logits for logits, _ in zip(speak(decoder, reference.prompt), range(STEPS), strict=False)]
    tokens = [int(logits.argmax()) for logits in told]
    assert tokens == reference.greedy() and len(set(tokens)) > 3
    torch.testing.assert_close(torch.stack(told), reference.logits(tokens[:-1]), rtol=0, atol=EXACT)


def tree_of(decoder: Decoder, prompt: Tensor) -> Tensor:
    """Logits [6, V] of a tree after a prompt and one step."""
    logits = speak(decoder, prompt, torch.tensor(9))
    next(logits), next(logits)
    tokens = torch.arange(6)[None, :, None] + 3
    return decoder.score(TokenTree(tokens, TreeShape((-1, 0, 0, 1, 1, 2))), Rows.of([1])).logits[0]


def test_nodes_of_a_tree_are_transformers_too(kind: str, tmp_path: Path) -> None:
    found = Checkpoint(saved(kind, tmp_path))
    reference = Reference(tmp_path)
    decoder = SlotDecoder(
        found.config, found, num_slots=2, max_positions=80, max_nodes=6, dtype=torch.float64
    )
    scored = tree_of(decoder, reference.prompt)
    for node, path in enumerate(([3], [3, 4], [3, 5], [3, 4, 6], [3, 4, 7], [3, 5, 8])):
        torch.testing.assert_close(scored[node], reference.logits([9, *path])[-1], rtol=0, atol=EXACT)


@pytest.mark.parametrize("decoder_type", [SlotDecoder, NativeDecoder])
@pytest.mark.parametrize(
    "precision",
    [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.needs("bfloat16"))],
    ids=str,
)
def test_served_precisions_stay_near(
    kind: str, precision: torch.dtype, decoder_type: type[Decoder], tmp_path: Path
) -> None:
    """Of a file in bfloat16, as public ones are: a prompt, steps of the reference's tokens, and a tree."""
    found = Checkpoint(saved(kind, tmp_path, torch.bfloat16))
    reference = Reference(tmp_path)
    sizes = {"num_slots": 2, "max_positions": 80, "max_nodes": 6}
    exact = SlotDecoder(found.config, found, **sizes, dtype=torch.float64)
    served = (
        SlotDecoder(found.config, found, **sizes, dtype=precision)
        if decoder_type is SlotDecoder
        else NativeDecoder(found.config, found, **sizes, precision=precision)
    )
    first = [next(speak(decoder, reference.prompt)) for decoder in (exact, served)]
    trees = [tree_of(decoder, reference.prompt) for decoder in (exact, served)]
    for theirs, ours in (first, trees):
        assert float((ours.double() - theirs).abs().max() / theirs.std()) < NEAR[precision]


def test_the_module_that_learns_computes_the_same(kind: str, tmp_path: Path) -> None:
    found = Checkpoint(saved(kind, tmp_path))
    reference = Reference(tmp_path)
    ours = Llama(found.config).double().requires_grad_(False)
    ours.load_state_dict(found)
    assert (ours.lm_head.weight is ours.model.embed_tokens.weight) == found.config.tie_word_embeddings
    logits = ours.lm_head(ours(reference.prompt[None]).hidden)[0, -1]
    torch.testing.assert_close(logits, reference.logits([])[0], rtol=0, atol=EXACT)
    ours.save(tmp_path / "again")
    assert set(Checkpoint(tmp_path / "again")) == set(Checkpoint(tmp_path))
