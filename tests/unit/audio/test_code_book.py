"""Codes tell pitch and spectrum, and nothing of either is lost on the way."""

from __future__ import annotations

import torch
from talkahead.audio.code_book import CodeBook

BOOK = CodeBook((3, 4), shades=5, pitches=6)


def test_every_code_survives() -> None:
    codes = torch.arange(BOOK.size)
    latents, pitch = BOOK.decode(codes)
    before_rounding = torch.logit((latents.double() + 1) / 2, eps=1e-6)
    assert torch.equal(BOOK.encode(before_rounding, pitch), codes)
    torch.testing.assert_close(BOOK(before_rounding, pitch), latents.float())


def test_every_pitch_has_every_spectrum_and_the_unvoiced_have_shades() -> None:
    latents, pitch = BOOK.decode(torch.arange(BOOK.size))
    assert BOOK.size == 12 * (5 + 6)
    assert pitch.bincount().tolist() == [12 * 5] + [12] * 6
    assert len(latents[pitch == 0].unique(dim=0)) == 12 * 5
    for level in range(1, 7):
        assert len(latents[pitch == level][:, :2].unique(dim=0)) == 12
        assert not latents[pitch == level][:, 2].any()


def test_pitch_of_codes_is_what_they_decode_to() -> None:
    assert BOOK.pitch_of_codes().tolist() == BOOK.decode(torch.arange(BOOK.size))[1].tolist()


def test_the_shade_of_a_voiced_frame_has_no_gradient() -> None:
    latents = torch.randn(2, 3, requires_grad=True)
    BOOK(latents, torch.tensor([0, 1])).sum().backward()
    assert latents.grad is not None
    assert latents.grad[0, 2] != 0 and latents.grad[1, 2] == 0
