"""What a GPU would hold is counted before any of it is taken, and refused with the figures."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.config import ModelConfig
from talkahead.drafting.draft_artifact import count_draft_bytes, load_drafter
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.draft_pool import DraftPool
from talkahead.errors import Code, TalkaheadError
from talkahead.serving.gpu_memory import GpuMemory
from torch import Tensor

GIB = 1 << 30
SHAPE = DecoderConfig(50, 49, 32, 64, 2, 4, 2, 16)
TALKER = Path(__file__).parents[3] / "model_repository" / "talker" / "1"
SERVER = GpuMemory(
    DecoderMemory(6 * GIB, 0, GIB // 4, num_slots=16, num_positions=2048, spare_slots=1),
    steps=GIB // 4,
    drafts=GIB,
    neighbours=GIB // 2,
)
"""6 and 4 and a quarter of the talker, a quarter, 1, a half, and one and a half of contexts."""


def test_what_fits_is_served() -> None:
    assert SERVER.total == 13.5 * GIB
    SERVER.refuse_beyond(int(11.5 * GIB), int(13.5 * GIB), "cuda:0 (a GPU)")


def test_a_gpu_that_is_too_small_is_refused_with_the_sum_and_the_slots_that_fit() -> None:
    with pytest.raises(TalkaheadError) as refused:
        SERVER.refuse_beyond(12 * GIB, 12 * GIB, "cuda:0 (a GPU)")
    assert str(refused.value) == (
        "talker on cuda:0 (a GPU): it has 12.0 GiB, and the server takes 13.5 GiB; allowed: slots up to 10 "
        "(weights 6.0 GiB; embeddings 0 bytes; keys and values of 2,048 positions 256.0 MiB a slot; "
        "16 slots 4.0 GiB; 1 more for padding; steps 256.0 MiB; drafts 1.0 GiB; "
        "encoder and codec 512.0 MiB; contexts 1.5 GiB)"
    )
    assert refused.value.code is Code.RESOURCE_EXHAUSTED


def test_what_others_hold_of_it_counts() -> None:
    with pytest.raises(
        TalkaheadError, match=r"11.0 GiB of its 80.0 GiB are free, and the talker takes 11.5 GiB"
    ):
        SERVER.refuse_beyond(11 * GIB, 80 * GIB, "cuda:0")


def test_weights_that_leave_no_room_for_a_slot_are_told_so() -> None:
    with pytest.raises(TalkaheadError, match="allowed: a smaller talker, narrower products or fewer drafts"):
        SERVER.refuse_beyond(4 * GIB, 4 * GIB, "cuda:0")


def test_the_shipped_server_is_counted_from_its_files(config_of: Callable[..., ModelConfig]) -> None:
    config = config_of("talker")
    own = replace(SERVER.talker, num_slots=4)
    memory, narrow = (
        GpuMemory.of(config, SHAPE, own, 8, [], DraftPool.serving(4, 100), support) for support in (None, 20)
    )
    assert memory.drafts == 0
    assert memory.steps - narrow.steps == 4 * 8 * 30 * 80
    assert narrow.steps == 4 * 8 * (2 * 50 * 4 + 20 * 80)
    assert memory.neighbours == sum(
        path.stat().st_size
        for model in ("encoder", "vocoder")
        for path in config.artifact_folder(model).glob("*.safetensors")
    )


@pytest.mark.parametrize("drafter", ["heads", "mtp", "draft_lm"])
def test_drafts_take_what_was_counted(drafter: str) -> None:
    folder, pool = draft_folder(TALKER, drafter), DraftPool(6, 500, torch.bfloat16, "meta")
    counted = count_draft_bytes(folder, TALKER, pool)
    taken = sum(one.untyped_storage().nbytes() for one in _tensors(load_drafter(folder, TALKER, pool)))
    assert 0.97 * counted <= taken <= 1.03 * counted


def _tensors(drafter: object) -> Iterator[Tensor]:
    """All that an object holds, of one storage once."""
    seen, left, storages = set[int](), [drafter], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            if one.device.type == "meta" and one.untyped_storage()._cdata not in storages:
                storages.add(one.untyped_storage()._cdata)
                yield one
        elif isinstance(one, (dict, list, tuple)) or type(one).__module__.startswith(
            ("talkahead", "torch.nn")
        ):
            left += gc.get_referents(one) if not hasattr(one, "__dict__") else [vars(one)]


@pytest.mark.parametrize("drafter", ["mtp", "draft_lm"])
def test_where_forwards_are_recorded_their_buffers_count(drafter: str) -> None:
    folder = draft_folder(TALKER, drafter)
    recorded, eager = (
        count_draft_bytes(folder, TALKER, DraftPool(6, 500, torch.bfloat16, device))
        for device in ("cuda", "meta")
    )
    slots = recorded - eager
    assert slots > 2 * 6 * 8 * 7681 * 4  # of one decoder at least, and a slot for padding
