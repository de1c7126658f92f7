"""Filters agree with transformers' warpers, rows do not see each other, and draws follow the distribution."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.speculation.draws import stream_keys, trial_streams
from talkahead.speculation.native_sampler import NativeSampler, native_sampler
from talkahead.speculation.sampling import (
    SamplingSettings,
    candidates,
    draw,
    draw_in_torch,
    draw_several,
    probabilities,
    probabilities_in_torch,
)
from torch import Tensor

transformers = pytest.importorskip("transformers")

VOCABULARY = 300
CHI_SQUARE_15_AT_1E6 = 56.5
Draw = Callable[[Tensor, SamplingSettings, Tensor, Tensor], Tensor]


@pytest.fixture(params=[draw, draw_in_torch], ids=["native", "torch"])
def drawing(request: pytest.FixtureRequest) -> Draw:
    assert native_sampler() is not None
    chosen: Draw = request.param
    return chosen


def settings_of(*rows: tuple[float, int, float]) -> SamplingSettings:
    temperature, top_k, top_p = zip(*rows, strict=True)
    return SamplingSettings.of(
        torch.tensor(temperature, dtype=torch.float64),
        torch.tensor(top_k),
        torch.tensor(top_p, dtype=torch.float64),
    )


def keys_of(seeds: Tensor) -> Tensor:
    return stream_keys(seeds, torch.zeros_like(seeds))


def dense(logits: Tensor, chosen: SamplingSettings, width: int) -> Tensor:
    """Probabilities [R, V] of what `candidates` leaves."""
    support = candidates(logits, chosen, width)
    weights = torch.zeros(logits.shape, dtype=torch.float64).scatter(1, support.tokens, support.weights)
    return weights / weights.sum(dim=-1, keepdim=True)


def warped(logits: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """The same by transformers."""
    scores = transformers.TemperatureLogitsWarper(temperature)(None, logits)
    if top_k:
        scores = transformers.TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = transformers.TopPLogitsWarper(top_p)(None, scores)
    return torch.softmax(scores, dim=-1)


@given(
    seed=st.integers(0, 10_000),
    peak=st.floats(0.1, 8.0),
    temperature=st.floats(0.2, 2.0),
    top_k=st.sampled_from([0, 1, 5, 128, 129, 200]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 0.95, 1.0]),
    width=st.sampled_from([4, 128, VOCABULARY]),
)
@settings(max_examples=60, deadline=None)
def test_filters_agree_with_transformers(
    seed: int, peak: float, temperature: float, top_k: int, top_p: float, width: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = peak * torch.randn((2, VOCABULARY), generator=generator, dtype=torch.float64)
    chosen = settings_of((temperature, top_k, top_p), (temperature, top_k, top_p))
    expected = warped(logits, temperature, top_k, top_p)
    torch.testing.assert_close(dense(logits, chosen, width), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("vocabulary", [3, 16, 50, 1601])
@pytest.mark.parametrize("peak", [0.5, 3.0, 20.0])
def test_native_draws_are_those_of_torch(vocabulary: int, peak: float) -> None:
    """Trees of mixed settings. Sums differ in their last bits, which none of these draws hangs on."""
    torch.manual_seed(vocabulary)
    rows = [(0.7, 0, 0.95), (1.0, 2, 0.9), (0.0, 0, 1.0), (1.3, 0, 1.0), (0.5, 40, 0.5), (0.9, 7, 1.0)] * 4
    logits = peak * torch.randn(len(rows), 9, vocabulary)
    logits[:, :, vocabulary // 2] = -torch.inf
    positions = torch.arange(len(rows))[:, None] + torch.arange(9)
    arguments = logits, settings_of(*rows), keys_of(torch.arange(len(rows))), positions
    assert torch.equal(draw(*arguments), draw_in_torch(*arguments))


def test_what_the_native_sampler_cannot_read_goes_to_torch() -> None:
    assert NativeSampler.fits(torch.zeros(1))
    assert not NativeSampler.fits(torch.zeros(1, dtype=torch.float64))
    logits = torch.randn(2, 3, 50, dtype=torch.float64)
    arguments = (
        settings_of((0.7, 0, 0.9), (0.0, 0, 0.9)),
        keys_of(torch.arange(2)),
        torch.arange(6).view(2, 3),
    )
    assert torch.equal(draw(logits, *arguments), draw_in_torch(logits, *arguments))


MIXED = [(0.7, 0, 0.95), (1.0, 2, 0.9), (0.0, 0, 1.0), (1.3, 0, 1.0), (0.5, 40, 0.5), (0.9, 7, 1.0)]


@pytest.mark.parametrize("vocabulary", [3, 50, 1601])
def test_several_draws_are_single_draws_of_their_keys(vocabulary: int) -> None:
    torch.manual_seed(0)
    logits, positions = 3 * torch.randn(len(MIXED), 4, vocabulary), torch.arange(24).view(6, 4)
    streams = trial_streams(keys_of(torch.arange(6)), 3)
    several = draw_several(logits, settings_of(*MIXED), streams, positions)
    for trial in range(3):
        single = draw(logits, settings_of(*MIXED), streams[:, trial], positions)
        assert torch.equal(several.tokens[..., trial], single)
    sampled = several.tokens[settings_of(*MIXED).is_sampled]
    assert (sampled[..., 0] != sampled[..., 1]).any() and (sampled[..., 1] != sampled[..., 2]).any()


@pytest.mark.parametrize("vocabulary", [3, 50, 1601])
def test_probabilities_are_what_is_drawn_from(vocabulary: int) -> None:
    """Of both ways, of every kind of row; and log q of a token follows from its logit."""
    torch.manual_seed(1)
    logits, chosen = 3 * torch.randn(len(MIXED), 2, vocabulary), settings_of(*MIXED)
    ours, slow = probabilities(logits, chosen), probabilities_in_torch(logits, chosen)
    assert ours.dtype is torch.float32 and slow.dtype is torch.float64
    torch.testing.assert_close(ours.double(), slow, rtol=0, atol=2e-6)
    for row, setting in enumerate(MIXED):
        if setting[0] > 0:
            torch.testing.assert_close(slow[row], warped(logits[row].double(), *setting), rtol=0, atol=1e-6)
        else:
            assert torch.equal(slow[row].argmax(-1), logits[row].argmax(-1)) and slow[row].sum() == 2
    streams = trial_streams(keys_of(torch.arange(len(MIXED))), 2)
    draws = draw_several(logits, chosen, streams, torch.arange(2).expand(len(MIXED), -1))
    expected = slow.gather(2, draws.tokens)
    assert (expected > 0).all()
    found = logits.double().gather(2, draws.tokens) * chosen.sharpness[:, None, None]
    torch.testing.assert_close((found - draws.log_norms[..., None]).exp(), expected, rtol=1e-4, atol=0)


def test_rows_do_not_see_each_other(drawing: Draw) -> None:
    """A neighbour that wants the whole vocabulary widens the search and changes nothing."""
    torch.manual_seed(0)
    logits = 5 * torch.randn(3, 2, VOCABULARY)
    rows = [(0.7, 0, 0.9), (1.5, 0, 1.0), (0.0, 7, 0.5)]
    keys, positions = keys_of(torch.arange(3)), torch.arange(6).view(3, 2)
    together = drawing(logits, settings_of(*rows), keys, positions)
    for row, setting in enumerate(rows):
        only = slice(row, row + 1)
        for node in range(2):
            place = positions[only, node : node + 1]
            alone = drawing(logits[only, node : node + 1], settings_of(setting), keys[only], place)
            assert alone.item() == together[row, node].item()


def test_temperature_zero_is_greedy_whatever_the_seed(drawing: Draw) -> None:
    torch.manual_seed(0)
    logits = torch.randn(50, 2, VOCABULARY)
    greedy = settings_of(*[(0.0, 0, 0.95)] * 50)
    for seed in (0, 1):
        drawn = drawing(
            logits, greedy, keys_of(torch.arange(50) + seed), torch.zeros((50, 2), dtype=torch.int64)
        )
        assert torch.equal(drawn, logits.argmax(-1))


def test_draws_follow_the_distribution(drawing: Draw) -> None:
    """60,000 positions; the bound is what a true draw would exceed once in a million."""
    torch.manual_seed(0)
    count = 60_000
    logits = torch.randn(1, 1, 16)
    positions = torch.arange(count)[None]
    chosen = settings_of((0.8, 0, 0.9))
    drawn = drawing(logits.expand(-1, count, -1), chosen, keys_of(torch.tensor([9])), positions)
    counts = torch.bincount(drawn[0], minlength=16)
    probs = warped(logits[0].double(), 0.8, 0, 0.9)[0]
    assert not counts[probs == 0].any()
    expected = probs[probs > 0] * count
    assert float(((counts[probs > 0] - expected) ** 2 / expected).sum()) < CHI_SQUARE_15_AT_1E6


def test_logits_that_are_no_numbers_still_give_a_token(drawing: Draw) -> None:
    """A broken model must not make the server read outside its tables."""
    logits = torch.full((2, 1, 50), torch.nan)
    rows = settings_of((0.7, 5, 0.9), (0.0, 0, 1.0))
    drawn = drawing(logits, rows, keys_of(torch.arange(2)), torch.zeros((2, 1), dtype=torch.int64))
    assert bool(((drawn >= 0) & (drawn < 50)).all())
