"""Every drafter and verifier in one batch: each stream gets what it gets alone, or, with `match`, plainly."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
import torch
from crowd import CHAIN, Crowd, Speaker, kv_of
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import RequestOptions
from talkahead.drafting.draft_lm_drafter import DraftLmDrafter
from talkahead.engine.draft_budget import DraftBudget
from talkahead.engine.method import Method
from talkahead.speculation.rows import Rows
from tiny_talker import POSITIONS, WIDTH, make_cut, make_decoder, make_llama

STREAMS, SLOTS = 16, 16
MATCH = (
    {},
    {"drafter": "heads", "nodes": 4},
    {"drafter": "heads", "nodes": 8},
    {"drafter": "mtp", "draft_length": 1},
    {"drafter": "mtp", "draft_length": 3},
    {"drafter": "draft_lm", "draft_length": 1},
    {"drafter": "draft_lm", "draft_length": 2},
    {"drafter": "draft_lm", "draft_length": CHAIN},
)
LENIENT = (
    {"drafter": "heads", "verifier": "tolerance", "tolerance": 3},
    {"drafter": "heads", "verifier": "topk", "top_k_verify": 4, "nodes": 4},
    {"drafter": "mtp", "verifier": "topk", "top_k_verify": 3},
    {"drafter": "mtp", "verifier": "ratio", "draft_length": 2},
    {"drafter": "draft_lm", "verifier": "ratio"},
    {"drafter": "draft_lm", "verifier": "groups"},
    {"drafter": "draft_lm", "verifier": "biased", "bias": 0.3, "draft_length": 2},
    {"drafter": "mtp", "verifier": "tolerance", "tolerance": 2},
)


@pytest.fixture(scope="module")
def llama() -> Llama:
    return make_llama()


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "native float32"])
def crowd(request: pytest.FixtureRequest, llama: Llama) -> Callable[[], Crowd]:
    return lambda: Crowd(llama, SLOTS, request.param)


def speakers_of(*wishes: dict[str, object], first: int = 0) -> list[Speaker]:
    """Greedy and sampled in turn; a stream that drafts does so with a fixed tree."""
    generator = torch.Generator().manual_seed(first)
    return [
        Speaker(
            torch.randn((2 + number * 5 % 11, WIDTH), generator=generator, dtype=torch.float64),
            RequestOptions(
                temperature=0.9 * (number // len(wishes) % 2),
                top_p=0.95,
                top_k=6 * (number % 3),
                pin_draft=True if wish else None,
                **wish,  # type: ignore[arg-type]
            ),
            seed=31 * number + first,
        )
        for number, wish in enumerate(wishes * (STREAMS // len(wishes)))
    ]


def plainly(speakers: list[Speaker]) -> list[Speaker]:
    return [
        Speaker(
            one.prompt,
            RequestOptions(one.options.temperature, one.options.top_p, one.options.top_k),
            one.seed,
        )
        for one in speakers
    ]


def anew(speakers: list[Speaker]) -> list[Speaker]:
    return [Speaker(one.prompt, one.options, one.seed) for one in speakers]


def drafted_at_once(speaker: Speaker) -> int:
    """Nodes after the root that a pinned draft has."""
    options = speaker.options
    return options.draft_length or (options.nodes or 1) - 1


def said(speakers: list[Speaker]) -> list[tuple[list[int], bool]]:
    return [(one.frames, one.has_ended) for one in speakers]


def test_match_speaks_as_plain_decoding_alone_and_in_any_company(crowd: Callable[[], Crowd]) -> None:
    streams = speakers_of(*MATCH)
    plain, alone = plainly(streams), anew(streams)
    crowd().speak_in_turn(plain)
    assert len({len(one.frames) for one in plain}) > 4 and any(one.has_ended for one in plain)
    crowd().speak_in_turn(alone)
    assert said(alone) == said(plain)
    assert {one.options.drafter for one in alone if one.totals[2]} == {"heads", "mtp", "draft_lm"}
    for one in alone:
        steps, drafted, accepted = one.totals
        # Each step adds what it accepted and its next root, which an accepted end of speech leaves out.
        assert drafted == steps * drafted_at_once(one)
        spare = steps + accepted - (len(one.frames) - 1 + one.has_ended)
        assert spare in (0, 1) if one.has_ended else spare >= 0

    for seed in range(2):
        together = anew(streams)
        crowd().speak_in_disorder(together, speakers_of(*MATCH, *LENIENT, first=7), seed)
        assert said(together) == said(plain)


def test_each_verifier_gives_in_company_what_it_gives_alone(crowd: Callable[[], Crowd]) -> None:
    streams = speakers_of(*LENIENT)
    alone, together = anew(streams), anew(streams)
    crowd().speak_in_turn(alone)
    crowd().speak_in_disorder(together, speakers_of(*MATCH, first=7), seed=3)
    assert said(together) == said(alone)


class _Moody(DraftBudget):
    """Changes its mind at every step."""

    def __init__(self, seed: int) -> None:
        super().__init__((1, 2, 3, 4, 5, 8))
        self._chance = random.Random(seed)

    def choose(self, rows: int, most: int | None = None) -> int:
        return min(self._chance.choice((1, 1, 1, 2, 4, 8)), most or 8)


class _MoodyCrowd(Crowd):
    """Trees grow and shrink from step to step, and are left out for a while."""

    def method_of(self, speaker: Speaker) -> Method:
        method = super().method_of(speaker)
        if method not in self._moody:
            self._moody[method] = replace(method, budget=_Moody(len(self._moody)))
        return self._moody[method]

    def __init__(self, llama: Llama, num_slots: int, dtype: torch.dtype) -> None:
        super().__init__(llama, num_slots, dtype)
        self._moody: dict[Method, Method] = {}


@pytest.fixture(scope="module")
def stirred(llama: Llama) -> tuple[_MoodyCrowd, list[Speaker], list[Speaker]]:
    """A crowd with streams that have ended and streams in the middle of their speech."""
    crowd = _MoodyCrowd(llama, SLOTS, torch.float64)
    ended = speakers_of(*MATCH)
    crowd.speak_in_disorder(ended, speakers_of(*LENIENT, first=7), seed=5)
    for one in list(crowd.speaking):
        crowd.leave(one)
    running = speakers_of(*MATCH, first=11)
    crowd.join(running)
    for seed in range(5):
        crowd.run(random.Random(seed).sample(running, 12))
    return crowd, ended, running


def test_budgets_that_change_change_no_token(
    llama: Llama, stirred: tuple[_MoodyCrowd, list[Speaker], list[Speaker]]
) -> None:
    plain = plainly(speakers_of(*MATCH))
    Crowd(llama, 2, torch.float64).speak_in_turn(plain)
    assert said(stirred[1]) == said(plain)


def test_kv_after_compaction_is_that_of_what_was_said(
    llama: Llama, stirred: tuple[_MoodyCrowd, list[Speaker], list[Speaker]]
) -> None:
    crowd, _, running = stirred
    for one in running:
        length = int(crowd.backbone.cache.lengths[one.slot])
        scratch = make_decoder(llama, nodes=POSITIONS, slots=1)
        frames = crowd.frames_of(one)
        if not crowd.table.ended[one.slot]:
            assert length == len(one.prompt) + len(frames) - 1
        _feed(scratch, llama, one, frames[: length - len(one.prompt)])
        torch.testing.assert_close(
            kv_of(crowd.backbone, one.slot, length), kv_of(scratch, 0, length), atol=1e-9, rtol=1e-9
        )


def test_a_drafter_s_kv_after_steps_without_it_is_that_of_what_was_said(
    llama: Llama, stirred: tuple[_MoodyCrowd, list[Speaker], list[Speaker]]
) -> None:
    crowd, _, running = stirred
    drafter = cast(DraftLmDrafter, crowd.drafters["draft_lm"])
    decoder, cut = cast(SlotDecoder, drafter._decoder), make_cut(llama)
    own = [one for one in running if one.options.drafter == "draft_lm"]
    assert own
    for one in own:
        length = int(decoder.cache.lengths[one.slot])
        scratch = make_decoder(cut, nodes=POSITIONS, slots=1)
        _feed(scratch, cut, one, crowd.frames_of(one)[: length - len(one.prompt)])
        torch.testing.assert_close(
            kv_of(decoder, one.slot, length), kv_of(scratch, 0, length), atol=1e-9, rtol=1e-9
        )


def _feed(decoder: SlotDecoder, llama: Llama, speaker: Speaker, frames: list[int]) -> None:
    decoder.prefill([0], speaker.prompt[None], [len(speaker.prompt)])
    if frames:
        tokens = llama.model.embed_tokens(torch.tensor([frames]))
        decoder.extend(tokens, torch.tensor([len(frames)]), Rows.of([0]))


def test_what_segments_tell_is_what_they_said(llama: Llama) -> None:
    crowd = Crowd(llama, SLOTS, torch.float32)
    streams = speakers_of(*MATCH)
    crowd.speak_in_disorder(streams, [], seed=1)
    for pair, (steps, drafted, accepted) in crowd.telemetry.told.items():
        own = [one for one in streams if (one.options.drafter or "none") == pair[0]]
        assert [steps, drafted, accepted] == [sum(one.totals[place] for one in own) for place in range(3)]
        tokens = sum(tokens * times for tokens, times in enumerate(crowd.telemetry.committed[pair]))
        said_by_own = sum(
            len(one.frames) - 1 + one.has_ended for one in own
        )  # the first came with the prompt
        assert said_by_own <= tokens <= steps + accepted
    assert set(crowd.telemetry.told) == {(name, "match") for name in ("none", "heads", "mtp", "draft_lm")}
