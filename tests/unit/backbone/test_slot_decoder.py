"""The slot decoder equals the plain forward in float64: alone, batched, over trees, in any slots."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree, TreeShape
from torch import Tensor

EXACT = 1e-9
WIDTH, VOCABULARY = 64, 50
CONFIG = DecoderConfig(VOCABULARY, VOCABULARY - 1, WIDTH, 96, 3, 4, 4, 16, max_position_embeddings=128)


def make_llama(config: DecoderConfig) -> Llama:
    torch.manual_seed(1)
    llama = Llama(config).double().eval().requires_grad_(False)
    for name, value in llama.named_parameters():
        if "norm" in name:
            value.uniform_(0.5, 1.5)
        else:
            value.mul_(5.0)
    return llama


@pytest.fixture(params=[4, 2, 1], ids=["all heads", "grouped heads", "one head"])
def llama(request: pytest.FixtureRequest) -> Llama:
    return make_llama(replace(CONFIG, num_key_value_heads=request.param))


def make_decoder(llama: Llama, dtype: torch.dtype = torch.float64) -> SlotDecoder:
    state = {name: value.to(dtype) for name, value in llama.state_dict().items()}
    return SlotDecoder(llama.config, state, num_slots=7, max_positions=80, max_nodes=9, dtype=dtype)


def reference(llama: Llama, prompt: Tensor, tokens: list[int]) -> Tensor:
    """Logits [V] after a prompt [P, D] and tokens, by one forward over everything."""
    embedded = llama.model.embed_tokens(torch.tensor(tokens, dtype=torch.int64))
    return llama.lm_head(llama(torch.cat([prompt, embedded])[None]).hidden)[0, -1]


def prompts_of(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(sum(lengths))
    return [torch.randn((length, WIDTH), generator=generator, dtype=torch.float64) for length in lengths]


def prefill(decoder: SlotDecoder, slots: list[int], prompts: list[Tensor]) -> Tensor:
    """Padded with noise, which must not matter; logits [B, V]."""
    longest = max(map(len, prompts)) + 3
    padded = torch.full((len(prompts), longest, WIDTH), 3.0, dtype=torch.float64)
    for row, prompt in enumerate(prompts):
        padded[row, : len(prompt)] = prompt
    return decoder.prefill(slots, padded, [len(prompt) for prompt in prompts]).logits[:, 0]


def keep_roots(decoder: SlotDecoder, rows: Rows) -> None:
    ones = torch.ones(len(rows.slots), dtype=torch.int64)
    decoder.commit(Accepted(torch.zeros_like(ones)[:, None], ones, ones[:, None]), ROOT_ALONE, rows)


def decode_greedily(decoder: SlotDecoder, logits: Tensor, rows: Rows, steps: int) -> list[list[int]]:
    spoken: list[list[int]] = [[] for _ in rows.slots]
    for _ in range(steps):
        roots = logits.argmax(-1)
        for row, token in enumerate(roots.tolist()):
            spoken[row].append(token)
        logits = decoder.score(TokenTree(roots[:, None, None]), rows).logits[:, 0]
        keep_roots(decoder, rows)
    return spoken


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=EXACT)


def test_logits_equal_the_plain_forward_whatever_the_neighbours_and_the_padding(llama: Llama) -> None:
    decoder, prompts, rows = make_decoder(llama), prompts_of(5, 9, 1), Rows.of(range(2, 5))
    logits = prefill(decoder, [2, 3, 4], prompts)
    spoken: list[list[int]] = [[], [], []]
    for _ in range(12):
        for row, prompt in enumerate(prompts):
            close(logits[row], reference(llama, prompt, spoken[row]))
        roots = logits.argmax(-1)
        for row, token in enumerate(roots.tolist()):
            spoken[row].append(token)
        logits = decoder.score(TokenTree(roots[:, None, None]), rows).logits[:, 0]
        keep_roots(decoder, rows)
    assert len(set(map(tuple, spoken))) == 3


def test_greedy_tokens_are_those_of_transformers(
    llama: Llama, monkeypatch: pytest.MonkeyPatch, tmp_path: pytest.TempPathFactory
) -> None:
    modeling = pytest.importorskip("transformers.models.llama.modeling_llama")
    monkeypatch.setattr(modeling.LlamaRMSNorm, "forward", _norm_in_double)
    monkeypatch.setattr(modeling.LlamaRotaryEmbedding, "forward", _angles_in_double)
    llama.save(tmp_path)
    theirs = modeling.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    theirs.load_state_dict(llama.state_dict())
    decoder, (prompt,) = make_decoder(llama), prompts_of(7)
    logits = prefill(decoder, [3], [prompt])
    close(logits, theirs(inputs_embeds=prompt[None]).logits[:, -1])
    ours = decode_greedily(decoder, logits, Rows.of([3]), 30)[0]
    generated = theirs.generate(
        inputs_embeds=prompt[None], max_new_tokens=30, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert ours == generated[0].tolist()


def _norm_in_double(self: torch.nn.Module, x: Tensor) -> Tensor:
    """As in transformers, but without its detour over float32."""
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def _angles_in_double(self: torch.nn.Module, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    half = torch.arange(0, CONFIG.head_dim, 2, dtype=torch.float64) / CONFIG.head_dim
    angles = position_ids[..., None] * CONFIG.rope_theta**-half
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def random_shape(nodes: int) -> TreeShape:
    return TreeShape((-1, *(random.randrange(node) for node in range(1, nodes))))


SLOTS = pytest.mark.parametrize("slots", [[1, 2, 3], [5, 0, 2]], ids=["neighbours", "scattered"])


@SLOTS
@pytest.mark.parametrize("nodes", [1, 2, 5, 9])
def test_every_node_of_a_tree_equals_the_forward_over_its_path(
    llama: Llama, nodes: int, slots: list[int]
) -> None:
    random.seed(nodes)
    decoder, prompts, rows = make_decoder(llama), prompts_of(4, 11, 6), Rows.of(slots)
    prefill(decoder, slots, prompts)
    shape = random_shape(nodes)
    tokens = torch.randint(VOCABULARY, (3, nodes, 1))
    logits = decoder.score(TokenTree(tokens, shape), rows).logits
    for row, prompt in enumerate(prompts):
        for node in range(nodes):
            path = [step for step in shape.paths[node].tolist() if step >= 0]
            close(logits[row, node], reference(llama, prompt, tokens[row, path, 0].tolist()))


@SLOTS
def test_trees_of_several_shapes_are_scored_as_each_alone(llama: Llama, slots: list[int]) -> None:
    random.seed(1)
    decoder, prompts = make_decoder(llama), prompts_of(4, 11, 6)
    prefill(decoder, slots, prompts)
    trees = [TokenTree(torch.randint(VOCABULARY, (1, nodes, 1)), random_shape(nodes)) for nodes in (1, 9, 4)]
    together = decoder.score_mixed(trees, Rows.of(slots))
    for slot, tree, scored in zip(slots, trees, together, strict=True):
        alone = decoder.score(tree, Rows.of([slot]))
        close(scored.logits, alone.logits)
        close(scored.hidden, alone.hidden)


@SLOTS
@pytest.mark.parametrize("count", [1, 3])
def test_what_a_tree_leaves_behind_equals_decoding_from_scratch(
    llama: Llama, count: int, slots: list[int]
) -> None:
    """Random trees and random paths, again and again; then plain steps on what was kept."""
    random.seed(count)
    decoder, prompts = make_decoder(llama), prompts_of(4, 11, 6)[:count]
    rows = Rows.of(slots[:count])
    prefill(decoder, slots[:count], prompts)
    kept: list[list[int]] = [[] for _ in prompts]
    for nodes in (7, 1, 9, 4, 1):
        shape = random_shape(nodes)
        tokens = torch.randint(VOCABULARY, (count, nodes, 1))
        logits = decoder.score(TokenTree(tokens, shape), rows).logits
        last = [random.randrange(nodes) for _ in prompts]
        for row, prompt in enumerate(prompts):
            path = [step for step in shape.paths[last[row]].tolist() if step >= 0]
            kept[row] += tokens[row, path, 0].tolist()
            close(logits[row, last[row]], reference(llama, prompt, kept[row]))
        path_of = shape.paths[torch.tensor(last)].clamp_min(0)
        counts = torch.tensor([shape.depths[node] + 1 for node in last])
        decoder.commit(Accepted(path_of, counts, tokens[:, 0]), shape, rows)


def test_what_a_slot_held_before_does_not_matter(llama: Llama) -> None:
    decoder, (long, short) = make_decoder(llama), prompts_of(40, 3)
    decode_greedily(decoder, prefill(decoder, [2, 3], [long, long]), Rows.of(range(2, 4)), 20)
    decoder.release(2)
    logits = prefill(decoder, [2], [short])
    roots = torch.stack([logits.argmax(-1), logits.argmax(-1)])
    again = decoder.score(TokenTree(roots[:, :, None]), Rows.of(range(2, 4))).logits[:, 0]
    close(again[0], reference(llama, short, roots[0].tolist()))


def test_a_slot_can_be_filled_to_its_last_position() -> None:
    llama = make_llama(CONFIG)
    decoder, (prompt,) = make_decoder(llama), prompts_of(70)
    spoken = decode_greedily(decoder, prefill(decoder, [6], [prompt]), Rows.of([6]), 10)[0]
    chain = TokenTree(torch.randint(VOCABULARY, (1, 9, 1)), TreeShape(tuple(range(-1, 8))))
    last = decoder.score(chain, Rows.of([6]))
    assert torch.isfinite(last.logits).all()
    assert len(spoken) == 10


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 0.1)])
def test_served_precision_stays_near(dtype: torch.dtype, tolerance: float) -> None:
    """The largest logit error, as a share of the logits' spread, over a tree and a plain step."""
    llama = make_llama(CONFIG)
    prompts = prompts_of(5, 9)
    tokens = torch.randint(VOCABULARY, (2, 9, 1), generator=torch.Generator().manual_seed(0))
    tree = TokenTree(tokens, TreeShape((-1, 0, 0, 1, 1, 2, 3, 3, 6)))
    scored = []
    for precision in (torch.float64, dtype):
        decoder = make_decoder(llama, precision)
        prefill(decoder, [0, 1], prompts)
        scored.append(decoder.score(tree, Rows.of(range(2))).logits.double())
    exact, served = scored
    assert float((served - exact).abs().max()) < tolerance * float(exact.std())
