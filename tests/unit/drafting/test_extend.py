"""Rows fed bit by bit, a different number to each slot, are scored as by one forward over all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.drafting.draft_decoder import feed
from talkahead.speculation.rows import Rows
from tiny_talker import CONFIG, MAX_NODES, WIDTH, make_decoder, make_llama

SLOTS, LENGTH = 5, 24
MakeDecoder = Callable[[Llama], SlotDecoder | NativeDecoder]


def make_native(llama: Llama) -> NativeDecoder:
    state = {name: value.float() for name, value in llama.state_dict().items()}
    return NativeDecoder(CONFIG, state, num_slots=SLOTS + 1, max_positions=48, max_nodes=MAX_NODES)


@pytest.mark.parametrize(
    ("make", "tolerance"), [(make_decoder, 1e-9), (make_native, 1e-3)], ids=["torch", "native"]
)
@pytest.mark.parametrize("is_ragged", [True, False], ids=["ragged", "even"])
def test_extending_bit_by_bit(make: MakeDecoder, tolerance: float, is_ragged: bool) -> None:
    llama = make_llama()
    decoder, rows = make(llama), Rows.of(range(1, 1 + SLOTS))
    generator = torch.Generator().manual_seed(0)
    embedded = torch.randn(SLOTS, LENGTH, WIDTH, generator=generator, dtype=torch.float64)
    hidden = llama(embedded).hidden
    logits = llama.lm_head(hidden)
    fed = torch.zeros(SLOTS, dtype=torch.int64)
    for width in (1, 3, MAX_NODES, 2, 3):
        counts = torch.full((SLOTS,), width)
        if is_ragged:
            counts = torch.randint(width + 1, (SLOTS,), generator=generator)
            counts[int(torch.randint(SLOTS, (), generator=generator))] = width
        places = fed[:, None] + torch.arange(width)
        lines = torch.arange(SLOTS)
        scored = decoder.extend(embedded[lines[:, None], places], counts, rows)
        fed += counts
        assert decoder.lengths(rows).tolist() == fed.tolist()
        for row in lines[counts > 0].tolist():
            count, last = int(counts[row]), int(fed[row])
            own = scored.hidden[row, :count].double()
            torch.testing.assert_close(own, hidden[row, last - count : last], atol=tolerance, rtol=tolerance)
            found = scored.logits[row, 0].double()
            torch.testing.assert_close(found, logits[row, last - 1], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("make", "tolerance"), [(make_decoder, 1e-9), (make_native, 1e-3)], ids=["torch", "native"]
)
def test_feeding_in_rounds(make: MakeDecoder, tolerance: float) -> None:
    """More than fits at once, and logits of rows that are ready before others."""
    llama = make_llama()
    decoder, rows = make(llama), Rows.of(range(SLOTS))
    generator = torch.Generator().manual_seed(1)
    embedded = torch.randn(SLOTS, LENGTH, WIDTH, generator=generator, dtype=torch.float64)
    truth = llama(embedded).hidden
    lines = torch.arange(SLOTS)
    for ends in ([1, 2, 9, 4, 5], [2, 12, 10, 5, 13]):
        states = torch.zeros(SLOTS, LENGTH, WIDTH, dtype=torch.float64)
        begins = decoder.lengths(rows).tolist()

        def seen(places: torch.Tensor, hidden: torch.Tensor, states: torch.Tensor = states) -> None:
            states[lines[:, None], places.clamp_max(LENGTH - 1)] = hidden.double()

        logits = feed(
            *(decoder, rows, torch.tensor(ends), lambda places: embedded[lines[:, None], places], seen),
            most=LENGTH,
        )
        for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            expected = llama.lm_head(truth[row, end - 1])
            torch.testing.assert_close(logits[row].double(), expected, atol=tolerance, rtol=tolerance)
            own = states[row, begin:end]
            torch.testing.assert_close(own, truth[row, begin:end], atol=tolerance, rtol=tolerance)
