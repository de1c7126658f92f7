"""The rows of a prompt that a head scores highest, as decoders keep them, against scores without a cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.generation_config import AlignmentHead
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape

CONFIG = DecoderConfig(50, 49, 64, 96, 3, 4, 2, 16)
HEAD = AlignmentHead(layer=1, head=3)
PROMPTS = {2: 9, 0: 5}
"""Rows of each slot's."""
SHAPES = [TreeShape((-1,)), TreeShape((-1, 0, 1)), TreeShape((-1, 0, 0, 2, 1))]
PATHS = [[0], [0, 1], [0, 2, 3]]
Decoder = SlotDecoder | NativeDecoder


@pytest.fixture(scope="module")
def llama() -> Llama:
    torch.manual_seed(3)
    model = Llama(CONFIG).requires_grad_(False)
    for value in model.parameters():
        value.mul_(4.0)
    return model.double()


@pytest.fixture(params=[SlotDecoder, NativeDecoder])
def make(request: pytest.FixtureRequest, llama: Llama) -> Callable[[], Decoder]:
    state = {name: value.float() for name, value in llama.state_dict().items()}
    return lambda: request.param(
        CONFIG, state, num_slots=4, max_positions=60, max_nodes=5, alignment_head=HEAD
    )


@torch.inference_mode()
def speak(decoder: Decoder) -> dict[int, list[int]]:
    """Steps through every shape with both slots, keeps a path of each, and returns the tokens on it."""
    draw = torch.Generator().manual_seed(5)
    slots = list(PROMPTS)
    longest = max(PROMPTS.values())
    prompts = torch.randn((len(slots), longest, CONFIG.hidden_size), generator=draw)
    decoder.prefill(slots, prompts, list(PROMPTS.values()))
    kept: dict[int, list[int]] = {slot: [] for slot in slots}
    rows = Rows.of(slots)
    for shape, path in zip(SHAPES, PATHS, strict=True):
        tokens = torch.randint(49, (len(slots), len(shape), 1), generator=draw)
        decoder.score(TokenTree(tokens, shape), rows)
        counts = torch.full((len(slots),), len(path))
        accepted = Accepted(torch.tensor([path] * len(slots)), counts, tokens[:, 0])
        decoder.commit(accepted, shape, rows)
        for slot, own in zip(slots, tokens, strict=True):
            kept[slot] += own[path, 0].tolist()
    return kept


@torch.inference_mode()
def whole_scores(llama: Llama, slot: int, tokens: list[int]) -> list[int]:
    """Of the last row of a slot's prompt and of each token, without any cache."""
    draw = torch.Generator().manual_seed(5)
    longest = max(PROMPTS.values())
    prompts = torch.randn((len(PROMPTS), longest, CONFIG.hidden_size), generator=draw)
    count = PROMPTS[slot]
    prompt = prompts[list(PROMPTS).index(slot), :count].double()
    rows = torch.cat([prompt, llama.model.embed_tokens(torch.tensor(tokens))])[None]
    watched = llama(rows, watched=(HEAD.layer, HEAD.head)).watched
    assert watched is not None
    return watched[0, count - 1 :, :count].argmax(-1).tolist()


def test_positions_know_the_row_that_they_score_highest(make: Callable[[], Decoder], llama: Llama) -> None:
    decoder = make()
    for slot, tokens in speak(decoder).items():
        first = PROMPTS[slot] - 1
        aligned = decoder.aligned(slot, first, first + 1 + len(tokens))
        assert aligned is not None
        expected = whole_scores(llama, slot, tokens)
        assert aligned.tolist() == expected
        assert len(set(expected)) > 1, "a test that constants pass"


def test_without_a_head_nobody_knows(llama: Llama) -> None:
    for kind in (SlotDecoder, NativeDecoder):
        assert kind(CONFIG, llama.state_dict(), num_slots=1, max_positions=9).aligned(0, 0, 1) is None
