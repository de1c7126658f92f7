"""Filters agree with transformers' warpers, rows do not see each other, and draws follow the distribution."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.speculation.draws import Purpose, draw_keys, stream_keys
from talkahead.speculation.sampling import SamplingSettings, candidates, draw
from torch import Tensor

transformers = pytest.importorskip("transformers")

VOCABULARY = 300
CHI_SQUARE_15_AT_1E6 = 56.5


def settings_of(*rows: tuple[float, int, float]) -> SamplingSettings:
    temperature, top_k, top_p = zip(*rows, strict=True)
    return SamplingSettings.of(
        torch.tensor(temperature, dtype=torch.float64),
        torch.tensor(top_k),
        torch.tensor(top_p, dtype=torch.float64),
    )


def keys_of(seeds: Tensor) -> Tensor:
    zeros = torch.zeros_like(seeds)
    return draw_keys(stream_keys(seeds, zeros), zeros, Purpose.TOKEN)


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


def test_rows_do_not_see_each_other() -> None:
    """A neighbour that wants the whole vocabulary widens the search and changes nothing."""
    torch.manual_seed(0)
    logits = 5 * torch.randn(3, VOCABULARY)
    rows = [(0.7, 0, 0.9), (1.5, 0, 1.0), (0.0, 7, 0.5)]
    keys = keys_of(torch.arange(3))
    together = draw(logits, settings_of(*rows), keys)
    for row, setting in enumerate(rows):
        alone = draw(logits[row : row + 1], settings_of(setting), keys[row : row + 1])
        assert alone.item() == together[row].item()


def test_temperature_zero_is_greedy_whatever_the_seed() -> None:
    torch.manual_seed(0)
    logits = torch.randn(50, VOCABULARY)
    greedy = settings_of(*[(0.0, 0, 0.95)] * 50)
    for seed in (0, 1):
        assert torch.equal(draw(logits, greedy, keys_of(torch.arange(50) + seed)), logits.argmax(-1))


def test_draws_follow_the_distribution() -> None:
    """60,000 keys; the bound is what a true draw would exceed once in a million."""
    torch.manual_seed(0)
    count = 60_000
    logits = torch.randn(1, 16, dtype=torch.float64)
    chosen = SamplingSettings.of(
        torch.full((count,), 0.8, dtype=torch.float64),
        torch.full((count,), 0),
        torch.full((count,), 0.9, dtype=torch.float64),
    )
    keys = draw_keys(stream_keys(torch.tensor([9]), torch.tensor([0])), torch.arange(count), Purpose.TOKEN)
    drawn = torch.bincount(draw(logits.expand(count, -1), chosen, keys), minlength=16)
    probs = warped(logits, 0.8, 0, 0.9)[0]
    assert not drawn[probs == 0].any()
    expected = probs[probs > 0] * count
    assert float(((drawn[probs > 0] - expected) ** 2 / expected).sum()) < CHI_SQUARE_15_AT_1E6
