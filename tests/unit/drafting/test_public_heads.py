"""Heads in the public layout guess what their authors' formula says, and change no token."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from talkahead.backbone.llama import Llama
from talkahead.drafting.calibrated_trees import CalibratedTree, CalibratedTrees
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, load_drafter, target_hash
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.rank_paths import RankTree
from talkahead.families.llasa.drafts import head_name
from talkahead.manifest import sha256
from talkahead.speculation.contracts import Context
from talkahead.speculation.null_drafter import NullDrafter
from tiny_talker import TREE, VOCABULARY, WIDTH, Pool, make_llama, utterances_of
from torch import Tensor
from torch.nn import functional

State = dict[str, Tensor]
HEADS, KNOWN = 3, 90
TOKENS = torch.arange(KNOWN - VOCABULARY, KNOWN).flip(0)
"""Of the public vocabulary, in the talker's order."""


def public_state(llama: Llama, blocks: int) -> State:
    """Somewhat like the talker's own head, so that some of what is guessed is right."""
    generator = torch.Generator().manual_seed(4)
    state = {}
    for head in range(HEADS):
        for block in range(blocks):
            shapes = {"weight": (WIDTH, WIDTH), "bias": (WIDTH,)}
            for part, shape in shapes.items():
                value = 0.1 * torch.randn(shape, generator=generator)
                state[f"{head}.{block}.linear.{part}"] = value
        whole = torch.randn((KNOWN, WIDTH), generator=generator)
        whole[TOKENS] = llama.lm_head.weight.float() + 0.1 * whole[TOKENS]
        state[f"{head}.{blocks}.weight"] = whole
    return state


def heads_of(state: State, blocks: int) -> DraftHeads:
    """As they are imported: under our names, of the talker's tokens."""
    own = {head_name(name, blocks): value for name, value in state.items()}
    own |= {name: value[TOKENS] for name, value in own.items() if name.startswith("linears.")}
    heads = DraftHeads(HEADS, WIDTH, VOCABULARY, block_size=None, num_blocks=blocks, sees_tokens=False)
    heads.load_state_dict(own)
    return heads.requires_grad_(False)


def by_formula(state: State, blocks: int, hidden: Tensor) -> Tensor:
    """Logits [B, K, KNOWN]: a head is blocks of x + SiLU(W x + b), then a matrix."""
    found = []
    for head in range(HEADS):
        x = hidden
        for block in range(blocks):
            weight, bias = (state[f"{head}.{block}.linear.{part}"].double() for part in ("weight", "bias"))
            x = x + functional.silu(x @ weight.T + bias)
        found.append(x @ state[f"{head}.{blocks}.weight"].double().T)
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("blocks", [1, 2])
def test_heads_guess_as_published(blocks: int) -> None:
    state = public_state(make_llama(), blocks)
    heads = heads_of(state, blocks).double()
    hidden = torch.randn((7, WIDTH), dtype=torch.float64)
    guesses = heads(hidden, torch.zeros((7, HEADS), dtype=torch.int64))
    torch.testing.assert_close(guesses, by_formula(state, blocks, hidden)[..., TOKENS], atol=1e-12, rtol=0)


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_tree_holds_each_head_s_best_and_changes_no_token(blocks: int) -> None:
    llama = make_llama()
    state = public_state(llama, blocks)
    watched = _Watched(heads_of(state, blocks).double(), TREE)

    def spoken(drafter: NullDrafter) -> tuple[list[list[int]], int]:
        utterances = utterances_of(0.0)
        Pool(llama, drafter).speak(utterances)
        return [one.tokens for one in utterances], sum(one.steps for one in utterances)

    tokens, steps = spoken(watched)
    plain, plain_steps = spoken(NullDrafter())
    assert tokens == plain and steps < plain_steps
    for hidden, drafted in watched.seen:
        best = by_formula(state, blocks, hidden)[..., TOKENS].topk(3).indices
        ranks = torch.stack([best[:, len(path) - 1, path[-1]] for path in TREE.by_depth.paths], dim=1)
        assert torch.equal(drafted[:, 1:], ranks)


class _Watched(HeadsDrafter):
    """Remembers hidden states [S, D] and what was drafted from them, [S, N]."""

    def __init__(self, heads: DraftHeads, tree: RankTree) -> None:
        super().__init__(heads, tree)
        self.seen: list[tuple[Tensor, Tensor]] = []

    def grow_in_torch(self, context: Context) -> Tensor:
        tokens = super().grow_in_torch(context)
        self.seen.append((context.hidden.clone(), tokens))
        return tokens


@pytest.mark.parametrize(("blocks", "is_native"), [(1, True), (2, False)])
def test_they_are_served_from_their_folder(tmp_path: Path, blocks: int, is_native: bool) -> None:
    """In C where a head has one block."""
    llama = make_llama()
    talker, folder = tmp_path / "talker", tmp_path / "heads"
    llama.float().save(talker)
    heads = heads_of(public_state(llama, blocks), blocks)
    Draft("heads", heads, target_hash(talker)).save(folder)
    trees = (CalibratedTree(len(TREE.shape), 1.5, TREE),)
    CalibratedTrees(sha256(folder / WEIGHTS), 1, trees).save(folder)
    read = Draft.load(folder, talker).network
    assert isinstance(read, DraftHeads)
    assert all(torch.equal(value, read.state_dict()[name]) for name, value in heads.state_dict().items())
    drafter = load_drafter(folder, talker, DraftPool(2, 40), DraftOptions(len(TREE.shape)))
    assert isinstance(drafter, HeadsDrafter)
    assert (drafter._native is not None) is is_native
