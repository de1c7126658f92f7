"""A decoder's memory is what it says, and no more than it is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from public_checkpoints import saved
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.decoder_choice import DecoderChoice, count_memory, load_decoder
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.errors import ArtifactMismatch, TalkaheadError

SMALL = DecoderMemory(weights=5000, embeddings=1000, slot=100, num_slots=16, num_positions=7)


def test_the_sum_is_told_item_by_item() -> None:
    told = replace(SMALL, weights=3 << 30, embeddings=1 << 20, slot=2048).lines()
    assert told == (
        *("weights 3.0 GiB", "embeddings 1.0 MiB", "keys and values of 7 positions 2.0 KiB a slot"),
        *("16 slots 32.0 KiB", "all 3.0 GiB"),
    )


def test_slots_that_do_not_fit_are_refused() -> None:
    SMALL.refuse_beyond(7600)
    expected = (
        r"memory_bytes is 7,599, and 16 slots of 7 positions take 7,600; allowed: slots up to 15, or at least"
    )
    with pytest.raises(TalkaheadError, match=expected):
        SMALL.refuse_beyond(7599)
    with pytest.raises(
        TalkaheadError, match=r"slots up to 0, or at least 6,100 bytes for one slot \(weights"
    ):
        SMALL.refuse_beyond(5000)


def load(
    found: Checkpoint, choice: DecoderChoice, dtype: torch.dtype, budget: int | None = None
) -> DecoderMemory:
    return load_decoder(
        *(found.config, found),
        num_slots=3,
        max_positions=120,
        max_nodes=8,
        dtype=dtype,
        choice=choice,
        memory_bytes=budget,
    ).memory


@pytest.mark.parametrize("choice", [DecoderChoice.TORCH, DecoderChoice.NATIVE])
def test_a_budget_is_kept_before_anything_is_loaded(choice: DecoderChoice, tmp_path: Path) -> None:
    found = Checkpoint(saved("qwen2", tmp_path, torch.bfloat16))
    memory = load(found, choice, torch.float32)
    assert load(found, choice, torch.float32, memory.total) == memory
    with pytest.raises(TalkaheadError, match="slots up to 2"):
        load(found, choice, torch.float32, memory.total - 1)


def test_more_positions_than_the_model_has_are_refused() -> None:
    config = DecoderConfig(50, 49, 64, 96, 1, 4, 2, 16, max_position_embeddings=128)
    with pytest.raises(ArtifactMismatch, match=r"max_positions is 129; allowed: .*, which is 128"):
        load_decoder(config, {}, num_slots=1, max_positions=129)


LARGE = DecoderConfig(2048, 2047, 256, 512, 2, 4, 2, 64, dtype="bfloat16")


def made(dtype: torch.dtype, native: bool) -> SlotDecoder | NativeDecoder:
    state = {name: value.bfloat16() for name, value in Llama(LARGE).state_dict().items()}
    if native:
        return NativeDecoder(LARGE, state, num_slots=3, max_positions=500, max_nodes=12, precision=dtype)
    return SlotDecoder(LARGE, state, num_slots=3, max_positions=500, max_nodes=12, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_torch_takes_what_it_says(dtype: torch.dtype) -> None:
    decoder = made(dtype, native=False)
    assert isinstance(decoder, SlotDecoder)
    layers = decoder._layers
    projections = [one for layer in layers for one in (layer.qkv, layer.out, layer.gate_up, layer.down)]
    weights = sum(one.matrix.nbytes for one in (*projections, *decoder._head))
    assert decoder.memory.weights == pytest.approx(weights, rel=0.01)
    assert decoder.memory.embeddings == decoder._embeddings.nbytes
    assert decoder.memory.slot * 3 == decoder.cache.num_bytes


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(torch.bfloat16, marks=pytest.mark.needs("bfloat16")),
        pytest.param(torch.int8, marks=pytest.mark.needs("int8")),
    ],
    ids=str,
)
def test_native_code_takes_what_it_says(dtype: torch.dtype) -> None:
    decoder = made(dtype, native=True)
    assert isinstance(decoder, NativeDecoder)
    kept = sum(one.nbytes for one in decoder._packer._kept if one.dtype is torch.uint8)
    assert decoder.memory.weights == pytest.approx(kept, rel=0.01)
    assert decoder.memory.embeddings == decoder._embeddings.nbytes
    assert decoder.memory.slot * 3 == decoder.cache._kv.nbytes
    sizes = {"num_slots": 3, "max_positions": 500, "max_nodes": 12}
    assert decoder.memory == count_memory(LARGE, torch.bfloat16, **sizes, dtype=dtype)


def test_sizes_that_are_left_to_torch_are_counted_as_torch_takes_them() -> None:
    sizes = {"num_slots": 3, "max_positions": 40}
    uneven = replace(LARGE, head_dim=8)
    counted = count_memory(uneven, torch.bfloat16, **sizes, dtype=torch.bfloat16)
    assert counted == load_decoder(uneven, Llama(uneven).bfloat16().state_dict(), **sizes).memory
