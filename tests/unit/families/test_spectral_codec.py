"""The spectral codec's windows join into its offline decode, whatever is decoded beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import CodecWindow, Frames
from talkahead.families.phonemic.spectral_codec import CONTEXT, SpectralCodec
from talkahead.families.phonemic.spectral_decoder import Spectra, SpectralConfig, SpectralDecoder
from talkahead.families.phonemic.spectral_renderer import sum_of_cosines, sum_overlapping

from tests.unit.families.codec_windows import cut, spoken

SMALL = SpectralConfig(width=16, inner=24, blocks=3, hidden=8, pitch_width=16)


@pytest.fixture(scope="module")
def codec() -> SpectralCodec:
    torch.manual_seed(3)
    decoder = SpectralDecoder(SMALL).double().eval().requires_grad_(False)
    decoder.spectra.bias.fill_(-3.0)
    return SpectralCodec(decoder, torch.device("cpu"))


def drawn(length: int, seed: int) -> Frames:
    return np.random.default_rng(seed).integers(0, SMALL.num_codes, (length, 1)).astype(np.int32)


def windows_of(frames: Frames, sizes: Sequence[int], speed: float = 1.0) -> list[CodecWindow]:
    found = cut(frames, sizes, CONTEXT, SMALL.lookahead_frames)
    return [replace(window, speed=speed) for window in found]


def whole(frames: Frames, speed: float = 1.0) -> list[CodecWindow]:
    return windows_of(frames, [len(frames)], speed)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_windows_join_into_the_offline_decode(codec: SpectralCodec, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    speed = data.draw(st.sampled_from((0.7, 0.913, 1.0, 1.25, 1.4)))
    frames = drawn(sum(sizes), len(sizes))
    (joined,) = spoken(codec, [windows_of(frames, sizes, speed)])
    (offline,) = spoken(codec, [whole(frames, speed)])
    assert len(joined) == len(frames) * codec.renderer(speed).frame_hop
    assert abs(len(joined) * speed / (len(frames) * SMALL.hop) - 1) < 0.003
    np.testing.assert_allclose(joined, offline, rtol=0, atol=1e-7)


@pytest.mark.parametrize("speed", [1.0, 1.3])
def test_frames_that_are_not_heard_shape_what_is(codec: SpectralCodec, speed: float) -> None:
    """The audio of an utterance from its second frame on, in windows, the first frame being context."""
    frames = drawn(21, 9)
    first, second = windows_of(frames[1:], [7, 13], speed)
    first = replace(first, frames=np.concatenate([frames[:1].astype(np.int64), first.frames]), context=1)
    (joined,) = spoken(codec, [[first, second]])
    (offline,) = spoken(codec, [whole(frames, speed)])
    np.testing.assert_allclose(joined, offline[codec.renderer(speed).frame_hop :], rtol=0, atol=1e-7)


@pytest.mark.parametrize("speeds", [(1.0, 1.0, 1.0), (1.2, 1.0, 1.2)])
def test_neighbours_change_nothing(codec: SpectralCodec, speeds: tuple[float, ...]) -> None:
    """One row begins while the others go on, and their runs differ in length, or in speed as well."""
    frames = drawn(20, 1), drawn(5, 2), drawn(20, 3)
    long, short, other = map(windows_of, frames, ([9, 11], [5], [4, 16]), speeds)
    begun = [codec.decode(windows[:1], [None])[0].state for windows in (long, other)]
    asked = [long[1], short[0], other[1]]
    states = [begun[0], None, begun[1]]
    together = codec.decode(asked, states)
    alone = [codec.decode([one], [state])[0] for one, state in zip(asked, states, strict=True)]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.audio, other.audio, rtol=0, atol=1e-7)


@pytest.mark.parametrize("context, lookahead", [(CONTEXT - 1, SMALL.lookahead_frames), (CONTEXT, 2)])
def test_windows_that_show_too_little_differ(codec: SpectralCodec, context: int, lookahead: int) -> None:
    frames = drawn(20, 4)
    (joined,) = spoken(codec, [list(cut(frames, [8, 12], context, lookahead))])
    (offline,) = spoken(codec, [whole(frames)])
    assert np.abs(joined - offline).max() > 1e-5


def test_a_window_without_what_the_one_before_left_differs(codec: SpectralCodec) -> None:
    frames = drawn(20, 5)
    first, second = cut(frames, [8, 12], CONTEXT, SMALL.lookahead_frames)
    states = [codec.decode([window], [None])[0].state for window in (first, *whole(drawn(8, 6)))]
    right, wrong = (codec.decode([second], [state])[0].audio for state in states)
    assert np.abs(right - wrong).max() > 1e-5


@pytest.mark.parametrize("speed", [0.7, 1.0, 1.4])
def test_a_voice_sounds_at_its_pitch_and_as_loud_however_fast(codec: SpectralCodec, speed: float) -> None:
    """Pulses through a flat filter, without breath and rest: all there is stands at the pitch's multiples."""
    renderer = codec.renderer(speed)
    bins, frames = SMALL.bins, 60
    quiet, loud = (torch.full((1, 2 * frames, bins), level, dtype=torch.float64) for level in (-30.0, 0.0))
    hertz = torch.full((1, 2 * frames + 2), 200.0, dtype=torch.float64)
    audio, _ = renderer(Spectra(loud, quiet, quiet, quiet), hertz, renderer.begin(1), torch.tensor([frames]))
    second = audio[0, 2 * SMALL.hop : 2 * SMALL.hop + 12_000]
    strengths = torch.fft.rfft(second * torch.hann_window(12_000, dtype=torch.float64)).abs()
    harmonics = strengths[100:4_000:100]  # bins of 2 Hz
    between = strengths[150:4_000:100]
    assert harmonics.min() > 1e4 * between.max()
    assert harmonics.min().item() == pytest.approx(10, rel=0.01)
    assert harmonics.max().item() == pytest.approx(10, rel=0.01)


def test_many_cosines_at_once_are_the_sum_of_each() -> None:
    turns = torch.linspace(-0.5, 0.5, 1_001, dtype=torch.float64)
    each = torch.cos(2 * torch.pi * torch.arange(1, 8)[:, None] * turns).sum(0)
    torch.testing.assert_close(sum_of_cosines(turns, torch.tensor(7.0)), each, rtol=0, atol=1e-3)


def test_overlapping_pieces_add_up() -> None:
    pieces = torch.tensor([[[1.0, 1.0, 1.0, 1.0], [10.0, 10.0, 10.0, 10.0]]])
    assert sum_overlapping(pieces, 2).tolist() == [[1.0, 1.0, 11.0, 11.0, 10.0, 10.0]]


def test_recordings_are_refused(codec: SpectralCodec) -> None:
    with pytest.raises(TalkaheadError, match="no encoder"):
        codec.encode(np.zeros(SMALL.hop, np.float32))
