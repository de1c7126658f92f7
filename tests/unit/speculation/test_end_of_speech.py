"""A drafted end of speech ends its row at its frame, through the step and the slots that serve it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch
from markov_speech import SHAPES, BestDrafter, MarkovBackbone, SampledDrafter, make_tables
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.engine.slot_table import SlotTable
from talkahead.speculation.biased_verifier import BiasedVerifier
from talkahead.speculation.contracts import Drafter, Verifier
from talkahead.speculation.groups_verifier import GroupsVerifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.ratio_verifier import RatioVerifier
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TreeShape
from talkahead.speculation.tolerance_verifier import ToleranceVerifier
from talkahead.speculation.topk_verifier import TopkVerifier

VOCABULARY, ROWS, LONGEST = 6, 32, 40
EOS = VOCABULARY - 1
TARGET, DRAFT = make_tables(VOCABULARY, seed=5)
TARGET[:, EOS] -= 0.5
DRAFT[:, EOS] += 0.5  # too eager; after the end it goes on with other tokens
DRAFT[EOS, EOS] = -9.0


@dataclass
class Owner:
    """What a slot table needs of a segment; `said` is what the step drew for it."""

    slot: int = -1
    said: list[int] = field(default_factory=list)


def frames_of(drafter: Drafter, verifier: Verifier, temperature: float = 1.0) -> list[list[int]]:
    """The frames of each segment when all have ended or are full: what was drawn before the first end."""
    step = DecodeStep(MarkovBackbone(TARGET, num_slots=ROWS), drafter, verifier)
    table = SlotTable(step, ROWS, LONGEST, eos=EOS, silence=0)
    owners = [Owner() for _ in range(ROWS)]
    _admit(table, step, owners, RequestOptions(temperature=temperature, top_p=1.0))
    while True:
        is_done = table.ended | (table.counts == LONGEST)
        running = [owner for owner in owners if not is_done[owner.slot]]
        if not running:
            break
        drawn = step.run([owner.slot for owner in running])
        table.add(drawn)
        for row, owner in enumerate(running):
            owner.said += drawn.tokens[row, : drawn.counts[row], 0].tolist()
    frames = [table.frames[owner.slot, : table.counts[owner.slot], 0].tolist() for owner in owners]
    assert frames == [[*own.said, EOS][: [*own.said, EOS].index(EOS)][:LONGEST] for own in owners]
    return frames


def _admit(table: SlotTable, step: DecodeStep, owners: list[Owner], options: RequestOptions) -> None:
    prompt = torch.zeros(1, 1, dtype=torch.float64)
    slots = [table.claim(cast(Any, owner)) for owner in owners]
    first = step.admit([Admission(slot, prompt, options, seed=slot, segment=0) for slot in slots])
    for slot, owner, token in zip(slots, owners, first, strict=True):
        table.start(slot, token)
        table.wake(slot, LONGEST)
        owner.said += token.tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", [SampledDrafter, BestDrafter])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_match_and_its_likes_end_where_plain_decoding_ends(
    shape: TreeShape, kind: type[SampledDrafter] | type[BestDrafter], temperature: float
) -> None:
    plain = frames_of(NullDrafter(), MatchVerifier(), temperature)
    assert temperature == 0.0 or len({len(one) for one in plain}) > 10
    for verifier in (MatchVerifier(), ToleranceVerifier(1, EOS)):
        assert frames_of(kind(DRAFT, shape), verifier, temperature) == plain


GROUPS = SimilarityGroups.of(torch.ones(VOCABULARY, 1), threshold=0.5, alone=(EOS,))
LENIENT: dict[str, Verifier] = {
    "ratio": RatioVerifier(),
    "groups": GroupsVerifier(GROUPS),
    "tolerance": ToleranceVerifier(3, EOS),
    "topk": TopkVerifier(4, 1, EOS),
    "biased": BiasedVerifier(0.2),
}


@pytest.mark.parametrize("verifier", LENIENT.values(), ids=LENIENT.keys())
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_no_frame_lies_behind_the_end_of_speech(shape: TreeShape, verifier: Verifier) -> None:
    spoken = frames_of(SampledDrafter(DRAFT, shape), verifier)
    assert len({len(frames) for frames in spoken}) > 5
