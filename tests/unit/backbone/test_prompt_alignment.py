"""The rows of a prompt that a head scores highest, as decoders keep them, and what is computed where it sees
only some near the last of them: against scores without a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.generation_config import CLOSING_FRAMES, AlignmentHead, AlignmentWindow
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape
from torch import Tensor

CONFIG = DecoderConfig(50, 49, 64, 96, 3, 4, 2, 16)
HEAD = AlignmentHead(layer=1, head=3)
ENDING = AlignmentWindow(1, 3, closing=3)
LEAVING = AlignmentWindow(0, 1, longest=2)
WINDOWS = [None, AlignmentWindow(0, 1), AlignmentWindow(2, 1), AlignmentWindow(9, 9), ENDING, LEAVING]
"""The fourth one shows the whole prompt."""
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


@pytest.fixture(params=WINDOWS, ids=str)
def head(request: pytest.FixtureRequest) -> AlignmentHead:
    return replace(HEAD, window=request.param)


@pytest.fixture(params=[SlotDecoder, NativeDecoder])
def make(request: pytest.FixtureRequest, llama: Llama, head: AlignmentHead) -> Callable[[], Decoder]:
    state = {name: value.float() for name, value in llama.state_dict().items()}
    return lambda: request.param(
        CONFIG, state, num_slots=4, max_positions=60, max_nodes=5, alignment_head=head
    )


@dataclass(frozen=True)
class Spoken:
    """A slot's prompt [P, D], the tokens after it, and what was scored after each of them, [T, V]."""

    prompt: Tensor
    tokens: list[int]
    logits: Tensor


@torch.inference_mode()
def speak(decoder: Decoder) -> dict[int, Spoken]:
    """Steps through every shape with both slots, and keeps a path of each."""
    draw = torch.Generator().manual_seed(5)
    slots, lengths = list(PROMPTS), list(PROMPTS.values())
    prompts = torch.randn((len(slots), max(lengths), CONFIG.hidden_size), generator=draw)
    decoder.prefill(slots, prompts, lengths)
    rows = Rows.of(slots)
    kept, logits = [], []
    for shape, path in zip(SHAPES, PATHS, strict=True):
        tokens = torch.randint(49, (len(slots), len(shape), 1), generator=draw)
        logits.append(decoder.score(TokenTree(tokens, shape), rows).logits[:, path].clone())
        counts = torch.full((len(slots),), len(path))
        decoder.commit(Accepted(torch.tensor([path] * len(slots)), counts, tokens[:, 0]), shape, rows)
        kept.append(tokens[:, path, 0])
    said = zip(slots, prompts, torch.cat(kept, 1).tolist(), torch.cat(logits, 1), strict=True)
    return {slot: Spoken(prompt[: PROMPTS[slot]], own, told) for slot, prompt, own, told in said}


def follow(scores: Tensor, window: AlignmentWindow | None, count: int) -> tuple[list[int], Tensor]:
    """By scores [T, T] of a head, which row of the prompt of `count` rows each from its last on speaks, and
    what the others do not see of it, bool [T, T]."""
    far = torch.zeros(scores.shape, dtype=torch.bool)
    aligned = [int(scores[count - 1, :count].argmax())]
    for row in range(count, len(scores)):
        places = torch.arange(count) - aligned[-1]
        if window is not None:
            leaves = window.longest > 0 and aligned[-window.longest :] == [aligned[-1]] * window.longest
            first = 1 if leaves and aligned[-1] + 1 < count else -window.back
            far[row, :count] = (places < first) | (places > window.ahead)
        aligned.append(int(scores[row, :count].masked_fill(far[row, :count], -torch.inf).argmax()))
    return aligned, far


@torch.inference_mode()
def without_cache(llama: Llama, head: AlignmentHead, spoken: Spoken) -> tuple[list[int], Tensor]:
    """As `follow` the rows that are spoken, and the logits [T, V] after each token."""
    count = len(spoken.prompt)
    embedded = llama.model.embed_tokens(torch.tensor(spoken.tokens))
    rows = torch.cat([spoken.prompt.double(), embedded])[None]
    places = llama._places(rows)
    for index, layer in enumerate(llama.model.layers):
        after, scores = layer(rows, places)
        if index == head.layer:
            aligned, far = follow(scores[0, head.head], head.window, count)
            masks = places.mask.repeat(CONFIG.num_attention_heads, 1, 1)
            masks[head.head].masked_fill_(far, -torch.inf)
            after, _ = layer(rows, replace(places, mask=masks))
        rows = after
    logits = llama.lm_head(llama.model.norm(rows))[0, count:]
    closing = 0 if head.window is None else head.window.closing
    for place in range(CLOSING_FRAMES, len(aligned)):
        if min(aligned[place - CLOSING_FRAMES : place + 1]) >= count - closing:
            logits[place - 1] = torch.full((CONFIG.vocab_size,), -torch.inf)
            logits[place - 1, CONFIG.eos] = 0.0
    return aligned, logits


def test_positions_know_the_row_that_they_score_highest(
    make: Callable[[], Decoder], llama: Llama, head: AlignmentHead
) -> None:
    decoder = make()
    for slot, spoken in speak(decoder).items():
        first = len(spoken.prompt) - 1
        aligned = decoder.aligned(slot, first, first + 1 + len(spoken.tokens))
        assert aligned is not None
        expected, logits = without_cache(llama, head, spoken)
        assert aligned.tolist() == expected
        assert len(set(expected)) > 1, "a test that constants pass"
        torch.testing.assert_close(spoken.logits.double(), logits, rtol=1e-3, atol=1e-3)


def test_some_speech_ends_behind_its_prompt_and_some_goes_on(llama: Llama) -> None:
    """What the other test compares, where there is such speech."""
    state = {name: value.float() for name, value in llama.state_dict().items()}
    head = replace(HEAD, window=ENDING)
    spoken = speak(
        NativeDecoder(CONFIG, state, num_slots=4, max_positions=60, max_nodes=5, alignment_head=head)
    )
    over = torch.cat([one.logits.isinf().sum(1) for one in spoken.values()])
    assert set(over.tolist()) == {0, CONFIG.vocab_size - 1}


def test_a_window_changes_what_is_said(llama: Llama) -> None:
    """What the other test compares would agree of a window that nobody honours, if it hid nothing."""
    state = {name: value.float() for name, value in llama.state_dict().items()}
    narrow, whole = (
        speak(NativeDecoder(CONFIG, state, num_slots=4, max_positions=60, max_nodes=5, alignment_head=head))
        for head in (replace(HEAD, window=WINDOWS[1]), HEAD)
    )
    assert all((narrow[slot].logits - whole[slot].logits).abs().max() > 0.1 for slot in PROMPTS)


def test_without_a_head_nobody_knows(llama: Llama) -> None:
    for kind in (SlotDecoder, NativeDecoder):
        assert kind(CONFIG, llama.state_dict(), num_slots=1, max_positions=9).aligned(0, 0, 1) is None
