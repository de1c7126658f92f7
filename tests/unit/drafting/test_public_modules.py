"""Modules in the published layout draft what their authors' formula says, from the prompt's first row on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from talkahead.backbone.decoder_choice import DecoderChoice, load_decoder
from talkahead.backbone.llama import Llama, rope_tables, rotate
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import RequestOptions
from talkahead.drafting.draft_artifact import Draft, load_drafter, target_hash
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.mtp_drafter import MtpDrafter
from talkahead.drafting.mtp_kind import mtp_drafter
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.errors import ArtifactMismatch
from talkahead.families.llasa.drafts import module_name
from talkahead.speculation.contracts import Context, Drafter
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree
from tiny_talker import CONFIG, WIDTH, make_llama
from torch import Tensor
from torch.nn import functional

MODULES, ROWS, POSITIONS, STEPS = 2, 5, 60, 12
DTYPES = [torch.float64, torch.float32]
IDS = ["tensors", "native"]


@pytest.fixture(scope="module")
def llama() -> Llama:
    return make_llama(replace(CONFIG, rope_theta=50.0))  # so fast that a wrong position shows


def public_state(llama: Llama) -> dict[str, Tensor]:
    """Somewhat like the talker's last layer, so that some of what is drafted is right."""
    torch.manual_seed(6)
    state = {}
    last = llama.model.layers[CONFIG.num_hidden_layers - 1].state_dict()
    for number in range(1, MODULES + 1):
        for name, value in last.items():
            state[f"mtp_{number}_block.{name}"] = value + 0.1 * torch.randn_like(value)
        state[f"mtp_{number}_proj.weight"] = torch.eye(WIDTH) + 0.1 * torch.randn(WIDTH, WIDTH)
        state[f"mtp_{number}_proj.bias"] = 0.1 * torch.randn(WIDTH)
        state[f"mtp_{number}_local_RMSNorm.weight"] = 1.0 + 0.1 * torch.randn(WIDTH)
    return {name: value.float() for name, value in state.items()}


def modules_of(state: dict[str, Tensor], llama: Llama) -> MtpModules:
    """As they are imported."""
    modules = MtpModules(llama.config, MODULES, sees_tokens=False, has_norm=False, sees_prompt=True)
    modules.load_state_dict({module_name(name): value for name, value in state.items()})
    return modules.requires_grad_(False)


# The formula, over a whole prefix: h_k = Block_k(proj_k(RMSNorm_k(h_{k-1}))), logits_k = lm_head(h_k)


def normed(x: Tensor, weight: Tensor) -> Tensor:
    return x * (x.pow(2).mean(-1, keepdim=True) + CONFIG.rms_norm_eps).rsqrt() * weight


def heads_of(x: Tensor, weight: Tensor, count: int) -> Tensor:
    return (x @ weight.T).view(len(x), count, CONFIG.head_dim).transpose(0, 1)


def block(llama: Llama, x: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """A decoder layer over x [T, D], causal, with rotary positions from 0."""
    heads, groups, length = CONFIG.num_attention_heads, CONFIG.num_key_value_heads, len(x)
    inner = normed(x, weights["input_layernorm.weight"])
    query, key, value = (
        heads_of(inner, weights[f"self_attn.{part}_proj.weight"], count)
        for part, count in (("q", heads), ("k", groups), ("v", groups))
    )
    tables = rope_tables(llama.config, length, torch.float64)
    query, key = (rotate(part, *tables) for part in (query, key))
    key, value = (part.repeat_interleave(heads // groups, dim=0) for part in (key, value))
    scores = query @ key.transpose(1, 2) / CONFIG.head_dim**0.5
    seen = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf).softmax(-1) @ value
    x = x + seen.transpose(0, 1).reshape(length, -1) @ weights["self_attn.o_proj.weight"].T
    inner = normed(x, weights["post_attention_layernorm.weight"])
    gate, up = (inner @ weights[f"mlp.{part}_proj.weight"].T for part in ("gate", "up"))
    return x + (functional.silu(gate) * up) @ weights["mlp.down_proj.weight"].T


def drafted_by_formula(llama: Llama, state: dict[str, Tensor], rows: Tensor) -> list[int]:
    """After rows [T, D] of prompt and frames, and the frame that these draw."""
    wide = {name: value.double() for name, value in state.items()}
    hidden, found = llama(rows[None]).hidden[0], []
    for number in range(1, MODULES + 1):
        own = f"mtp_{number}_"
        inner = normed(hidden, wide[f"{own}local_RMSNorm.weight"])
        inner = inner @ wide[f"{own}proj.weight"].T + wide[f"{own}proj.bias"]
        layer = {name.removeprefix(f"{own}block."): value for name, value in wide.items()}
        hidden = block(llama, inner, layer)
        found.append(int((hidden[-1] @ llama.lm_head.weight.T).argmax()))
    return found


class Watched(MtpDrafter):
    """Remembers what it proposed."""

    trees: list[Tensor]

    def propose(self, context: Context) -> TokenTree:
        tree = super().propose(context)
        self.trees.append(tree.ids.clone())
        return tree


def prompts() -> list[Tensor]:
    """One of them of a single row, before which modules see nothing."""
    generator = torch.Generator().manual_seed(1)
    lengths = (1, 7, 2, 12, 4)
    return [torch.randn((length, WIDTH), generator=generator, dtype=torch.float64) for length in lengths]


def spoken(llama: Llama, drafter: Drafter, dtype: torch.dtype, temperature: float) -> list[list[list[int]]]:
    """Tokens of each row before each step, and at last."""
    state = {name: value.to(dtype) for name, value in llama.state_dict().items()}
    decoder = load_decoder(
        llama.config, state, num_slots=ROWS, max_positions=POSITIONS, max_nodes=MODULES + 1, dtype=dtype
    )
    step = DecodeStep(decoder, drafter, MatchVerifier())
    options, slots = RequestOptions(temperature=temperature, top_p=0.95), [3, 0, 4, 1, 2]
    firsts = step.admit(
        [
            Admission(slot, prompt.to(dtype), options, slot, segment=0)
            for slot, prompt in zip(slots, prompts(), strict=True)
        ]
    )
    history = [[first.tolist() for first in firsts]]
    for _ in range(STEPS):
        drawn = step.run(slots)
        history.append(
            [
                [*own, *drawn.tokens[row, : drawn.counts[row], 0].tolist()]
                for row, own in enumerate(history[-1])
            ]
        )
    return history


def watched(modules: MtpModules, llama: Llama, dtype: torch.dtype) -> Watched:
    pool = DraftPool(ROWS, POSITIONS, dtype)
    own = mtp_drafter(modules.to(dtype), llama.state_dict(), pool, DraftOptions())
    drafter = Watched(modules, own._decoders, llama.model.embed_tokens.weight)
    drafter.trees = []
    assert (drafter._native is not None) is (dtype is torch.float32)
    return drafter


@pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
def test_drafts_are_those_of_the_formula(llama: Llama, dtype: torch.dtype) -> None:
    state = public_state(llama)
    drafter = watched(modules_of(state, llama), llama, dtype)
    history = spoken(llama, drafter, dtype, 0.0)
    for before, tree in zip(history, drafter.trees, strict=False):
        for prompt, tokens, proposed in zip(prompts(), before, tree.tolist(), strict=True):
            frames = llama.model.embed_tokens(torch.tensor(tokens[:-1], dtype=torch.int64))
            expected = drafted_by_formula(llama, state, torch.cat([prompt, frames]))
            assert proposed == [tokens[-1], *expected]
    assert sum(map(len, history[-1])) > ROWS * (STEPS + 1), "something is accepted"


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "sampled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
def test_they_change_no_token(llama: Llama, dtype: torch.dtype, temperature: float) -> None:
    drafter = watched(modules_of(public_state(llama), llama), llama, dtype)
    drafted = spoken(llama, drafter, dtype, temperature)[-1]
    plain = spoken(llama, NullDrafter(), dtype, temperature)[-1]
    for one, other in zip(drafted, plain, strict=True):
        count = min(len(one), len(other))
        assert one[:count] == other[:count]
    assert sum(map(len, drafted)) > sum(map(len, plain))


def test_they_are_served_from_their_folder(llama: Llama, tmp_path: Path) -> None:
    talker, folder = tmp_path / "talker", tmp_path / "mtp"
    make_llama(llama.config).float().save(talker)
    modules = modules_of(public_state(llama), llama)
    Draft("mtp", modules, target_hash(talker)).save(folder)
    read = Draft.load(folder, talker).network
    assert isinstance(read, MtpModules) and read.sees_prompt and not read.has_norm
    assert read.config == modules.config
    assert all(torch.equal(value, read.state_dict()[name]) for name, value in modules.state_dict().items())
    pool = DraftPool(ROWS, POSITIONS, choice=DecoderChoice.TORCH)
    drafted = spoken(llama, load_drafter(folder, talker, pool), torch.float32, 0.0)
    assert drafted == spoken(llama, watched(modules, llama, torch.float32), torch.float32, 0.0)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"sees_tokens": false', '"sees_tokens": true'))
    with pytest.raises(ArtifactMismatch, match="sees_prompt and sees_tokens are both true"):
        Draft.load(folder, talker)


@pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
def test_modules_share_one_head(llama: Llama, dtype: torch.dtype) -> None:
    modules = modules_of(public_state(llama), llama)
    drafter = mtp_drafter(modules, llama.state_dict(), DraftPool(ROWS, POSITIONS, dtype), DraftOptions())
    first, second = drafter._decoders
    if isinstance(first, NativeDecoder) and isinstance(second, NativeDecoder):
        assert first._model.head.panels == second._model.head.panels
    else:
        assert isinstance(first, SlotDecoder) and isinstance(second, SlotDecoder)
        assert first._head is second._head
