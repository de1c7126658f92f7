"""Keyed draws: the same whatever the batch, and random enough.

The statistics below are of fixed keys, so a test either always passes or always fails; the bounds are what a
true source would exceed once in a million (false-alarm rate 1e-6 per bound).
"""

from __future__ import annotations

import torch
from talkahead.speculation.draws import Purpose, draw_keys, exponentials, stream_keys, uniforms

CHI_SQUARE_63_AT_1E6 = 131.4
CHI_SQUARE_255_AT_1E6 = 377.1


def chi_square(counts: torch.Tensor) -> float:
    expected = counts.sum() / counts.numel()
    return float(((counts - expected) ** 2 / expected).sum())


def keys_of(seed: int, segment: int, positions: torch.Tensor, purpose: Purpose) -> torch.Tensor:
    stream = stream_keys(torch.tensor([seed]), torch.tensor([segment]))
    return draw_keys(stream, positions, purpose)


def test_a_draw_is_the_same_alone_and_in_a_batch() -> None:
    seeds, segments = torch.arange(40) * 977, torch.arange(40) % 3
    positions, indices = torch.arange(40) * 5, torch.arange(1601)
    keys = draw_keys(stream_keys(seeds, segments), positions, Purpose.TOKEN)
    together = exponentials(keys[:, None], indices)
    for row in (0, 17, 39):
        only = slice(row, row + 1)
        alone = draw_keys(stream_keys(seeds[only], segments[only]), positions[only], Purpose.TOKEN)
        assert torch.equal(exponentials(alone[:, None], indices)[0], together[row])
        few = torch.tensor([3, 1600])
        assert torch.equal(exponentials(alone[:, None], few)[0], together[row, few])


def test_draws_stay_what_they_are() -> None:
    """A seed that a user wrote down must speak the same next year."""
    keys = keys_of(42, 1, torch.tensor([0, 7]), Purpose.TOKEN)
    drawn = uniforms(keys[:, None], torch.tensor([0, 1600]))
    expected = [[0.755388851467488, 0.6276342493371287], [0.6079344381574505, 0.6876623763714844]]
    assert torch.equal(drawn, torch.tensor(expected, dtype=torch.float64))


def test_every_part_of_the_key_matters() -> None:
    position = torch.tensor([3])
    base = keys_of(1, 2, position, Purpose.TOKEN)
    others = [
        keys_of(2, 2, position, Purpose.TOKEN),
        keys_of(1, 3, position, Purpose.TOKEN),
        keys_of(1, 2, position + 1, Purpose.TOKEN),
        keys_of(1, 2, position, Purpose.ACCEPT),
        keys_of(2, 1, position, Purpose.TOKEN),
        keys_of(2**63 - 1, 2, position, Purpose.TOKEN),
    ]
    drawn = [float(uniforms(keys, torch.tensor([0]))) for keys in [base, *others]]
    assert len(set(drawn)) == len(drawn)


def test_uniforms_are_uniform_over_indices_positions_and_seeds() -> None:
    many, one = torch.arange(1 << 16), torch.tensor([0])
    over_indices = uniforms(keys_of(5, 0, one, Purpose.TOKEN), many)
    over_positions = uniforms(keys_of(5, 0, many, Purpose.TOKEN), one)
    over_seeds = uniforms(draw_keys(stream_keys(many, one), one, Purpose.TOKEN), one)
    for drawn in (over_indices, over_positions, over_seeds):
        assert float(drawn.min()) > 0.0 and float(drawn.max()) < 1.0
        assert chi_square(torch.histc(drawn, 64, 0.0, 1.0)) < CHI_SQUARE_63_AT_1E6


def test_neighbouring_draws_are_independent() -> None:
    many = torch.arange(1 << 16)
    keys = keys_of(5, 0, many, Purpose.TOKEN)
    drawn = uniforms(keys[:, None], torch.arange(2))
    pairs = {
        "index": (drawn[:, 0], drawn[:, 1]),
        "position": (drawn[:-1, 0], drawn[1:, 0]),
        "purpose": (drawn[:, 0], uniforms(keys_of(5, 0, many, Purpose.ACCEPT), torch.tensor([0]))),
    }
    for name, (left, right) in pairs.items():
        cells = (left * 16).long() * 16 + (right * 16).long()
        counts = torch.bincount(cells, minlength=256).double()
        assert chi_square(counts) < CHI_SQUARE_255_AT_1E6, name
