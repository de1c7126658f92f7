"""Joining, leaving, parking and methods that mix move no KV: what a slot holds stays as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
import torch
from crowd import Crowd, Speaker, kv_of
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import RequestOptions
from talkahead.drafting.draft_lm_drafter import DraftLmDrafter
from talkahead.drafting.mtp_drafter import MtpDrafter
from tiny_talker import WIDTH, make_llama
from torch import Tensor

SLOTS, WHOLE = 6, 10_000
WISHES = ({}, {"drafter": "heads"}, {"drafter": "draft_lm"}, {"drafter": "mtp"})


class _Watched(Crowd):
    """Looks at all KV, the target's and the drafters', before and after whatever happens."""

    def __init__(self, llama: Llama) -> None:
        super().__init__(llama, SLOTS, torch.float64)
        drafts = cast(DraftLmDrafter, self.drafters["draft_lm"]), cast(MtpDrafter, self.drafters["mtp"])
        self._decoders = cast(list[SlotDecoder], [self.backbone, drafts[0]._decoder, *drafts[1]._decoders])
        self.scattered = self.mixed = 0

    def join(self, speakers: Sequence[Speaker]) -> None:
        before = self._look()
        super().join(speakers)
        self._compare(before, {one.slot: 0 for one in speakers})

    def leave(self, speaker: Speaker) -> None:
        before = self._look()
        super().leave(speaker)
        self._compare(before, {})

    def run(self, speakers: Sequence[Speaker]) -> None:
        before, slots = self._look(), [one.slot for one in speakers]
        super().run(speakers)
        self._compare(before, dict.fromkeys(slots, WHOLE))
        self.scattered += max(slots) - min(slots) >= len(slots)
        self.mixed += len({self.step.method_of(slot) for slot in slots}) > 1

    def _look(self) -> list[tuple[Tensor, Tensor]]:
        """Of each decoder: its KV [layers, 2, slots, heads, positions, d] and what is valid of each slot."""
        return [(one.cache._kv.clone(), one.cache.lengths.clone()) for one in self._decoders]

    def _compare(self, before: list[tuple[Tensor, Tensor]], written: dict[int, int]) -> None:
        """All slots are as they were, those `written` up to so many of the positions that stayed valid."""
        for decoder, (held, lengths) in zip(self._decoders, before, strict=True):
            valid = torch.minimum(lengths, decoder.cache.lengths).tolist()
            for slot in range(SLOTS):
                kept = min(written[slot], valid[slot]) if slot in written else WHOLE
                assert torch.equal(kv_of(decoder, slot, kept), held[:, :, slot, :, :kept])


@pytest.mark.parametrize("seed", range(2))
def test_kv_stays_where_it_was_written(seed: int) -> None:
    crowd = _Watched(make_llama())
    generator = torch.Generator().manual_seed(seed)
    speakers = [
        Speaker(
            torch.randn((3 + number % 7, WIDTH), generator=generator, dtype=torch.float64),
            RequestOptions(temperature=0.9, pin_draft=True if wish else None, **wish),  # type: ignore[arg-type]
            seed=number,
        )
        for number, wish in enumerate(WISHES * 4)
    ]
    crowd.speak_in_disorder(speakers, [], seed)
    assert all(one.frames for one in speakers)
    assert crowd.scattered > 10 and crowd.mixed > 10
