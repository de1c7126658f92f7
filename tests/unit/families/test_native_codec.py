"""The codec's network and renderer in C mean what torch's do, and a frame does not depend on its company."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from talkahead.audio.noise import Noise
from talkahead.backbone.native_decoder import can_multiply
from talkahead.config import AUTO
from talkahead.errors import ArtifactMismatch
from talkahead.families.contracts import CodecWindow
from talkahead.families.native_engine import NATIVE
from talkahead.families.phonemic import native_network
from talkahead.families.phonemic.native_network import NativeNetwork
from talkahead.families.phonemic.native_renderer import NativeRenderer
from talkahead.families.phonemic.spectral_codec import CONTEXT, SpectralCodec
from talkahead.families.phonemic.spectral_decoder import (
    BEFORE,
    PITCH_BEFORE,
    SUBFRAMES,
    NetworkOutput,
    Spectra,
    SpectralConfig,
    SpectralDecoder,
)
from talkahead.families.phonemic.spectral_renderer import Renderer, Tail
from talkahead.native_library import NativeUnavailable
from torch import Tensor

from tests.unit.families.codec_windows import cut, spoken

SMALL = SpectralConfig(width=32, inner=48, blocks=3, hidden=16, pitch_width=16)
CPU = torch.device("cpu")
ERRORS = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.int8: 0.2}
"""Of log-magnitudes and phases, where these are between -3 and 3."""


@pytest.fixture(scope="module")
def decoder() -> SpectralDecoder:
    torch.manual_seed(3)
    return SpectralDecoder(SMALL).eval().requires_grad_(False)


@pytest.fixture(params=[torch.float32, torch.bfloat16, torch.int8], ids=str)
def network(request: pytest.FixtureRequest, decoder: SpectralDecoder) -> NativeNetwork:
    if not can_multiply(request.param):
        pytest.skip(f"needs a CPU that multiplies {request.param}")
    return NativeNetwork(decoder, request.param)


def heard(frames: int, count: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Codes of whole utterances and their surroundings, which of them are frames, and nothing seen before."""
    draw = torch.Generator().manual_seed(frames)
    length = PITCH_BEFORE + frames + SMALL.lookahead
    place = torch.arange(length).expand(count, -1)
    valid = (place >= PITCH_BEFORE) & (place < PITCH_BEFORE + frames)
    codes = torch.randint(0, SMALL.num_codes, (count, length), generator=draw)
    return codes, valid, torch.zeros(count, SMALL.blocks, BEFORE, SMALL.width)


def test_it_is_torch_s_network(network: NativeNetwork, decoder: SpectralDecoder) -> None:
    """Longer than what passes through at once, in two rows."""
    given = heard(130, 2)
    made, meant = network(*given), decoder(*given)
    for one, other in zip((*made.spectra, made.seen), (*meant.spectra, meant.seen), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=ERRORS[network.precision])
    for one, other in zip(made.pitch, meant.pitch, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def test_what_is_rounded_more_differs_more(decoder: SpectralDecoder) -> None:
    """So no precision is another one's by mistake."""
    given = heard(40)
    meant = decoder(*given).seen
    kinds = [kind for kind in ERRORS if can_multiply(kind)]
    errors = [(NativeNetwork(decoder, kind)(*given).seen - meant).abs().mean().item() for kind in kinds]
    assert errors == sorted(errors)
    assert all(later > 3 * error for error, later in pairwise(errors))


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4, 8, 10, 12), (97, 33)])
def test_a_frame_is_the_same_however_its_utterance_is_cut(
    network: NativeNetwork, sizes: tuple[int, ...]
) -> None:
    codes, valid, before = heard(sum(sizes))
    whole, parts, start = network(codes, valid, before), list[NetworkOutput](), 0
    for size in sizes:
        span = slice(start, start + PITCH_BEFORE + size + SMALL.lookahead)
        parts.append(network(codes[:, span], valid[:, span], before))
        before, start = parts[-1].seen[:, :, -BEFORE:], start + size
    for place, of_all in enumerate(whole.spectra):
        assert torch.equal(torch.cat([part.spectra[place] for part in parts], dim=1), of_all)


@pytest.mark.parametrize("frames", [1, 21, 44])
def test_a_frame_is_the_same_in_a_crowd(network: NativeNetwork, frames: int) -> None:
    codes, valid, _ = heard(frames, 16)
    before = torch.randn(16, SMALL.blocks, BEFORE, SMALL.width)
    together = network(codes, valid, before)
    for row in range(16):
        own = slice(row, row + 1)
        alone = network(codes[own], valid[own], before[own])
        for one, other in zip((*together.spectra, *together.pitch, together.seen), _flat(alone), strict=True):
            assert torch.equal(one[own], other)


def _flat(made: NetworkOutput) -> tuple[Tensor, ...]:
    return (*made.spectra, *made.pitch, made.seen)


@pytest.mark.parametrize("speed", [0.7, 1.0, 1.137, 1.4])
def test_its_renderer_is_torch_s(speed: float) -> None:
    """Rows of several lengths that go on, voiced and not; beyond a row's frames there is padding."""
    draw = torch.Generator().manual_seed(1)
    rows, frames, bins = 3, torch.tensor([9, 7, 3]), SMALL.bins
    subframes = SUBFRAMES * int(frames.max())
    noise = Noise(SUBFRAMES, 2 * bins)
    plain, native = Renderer(SMALL, noise, speed), NativeRenderer(SMALL, noise, speed)
    magnitudes = torch.randn(rows, subframes, 3 * bins, generator=draw) - 2
    spectra = Spectra(*magnitudes.chunk(3, -1), 4 * torch.randn(rows, subframes, bins, generator=draw))
    hertz = 80 + 200 * torch.rand(rows, subframes + 2, generator=draw)
    hertz[:, 5:8] = 0
    left = torch.randn(2, rows, plain.size - plain.hop, generator=draw)
    phase = torch.rand(rows, generator=draw, dtype=torch.float64)
    tail = Tail(left[0], 0.1 * left[1], phase, torch.tensor([0, 5, 100_000]))
    (audio, after), (meant, meant_after) = (one(spectra, hertz, tail, frames) for one in (native, plain))
    loudest = meant.abs().max()
    assert loudest > 0.1
    # One harmonic more or less, where the highest is on the edge, is worth 1e-3.
    torch.testing.assert_close(audio, meant.clamp(-1, 1), rtol=0, atol=3e-3 * loudest.item())
    assert (audio - meant.clamp(-1, 1)).abs().mean() < 1e-6 * loudest
    torch.testing.assert_close(after.pieces, meant_after.pieces, rtol=0, atol=3e-3 * loudest.item())
    torch.testing.assert_close(after.phase, meant_after.phase, rtol=0, atol=1e-6)
    assert torch.equal(after.place, meant_after.place)


def test_windows_join_into_the_offline_decode_whatever_is_beside_them(network: NativeNetwork) -> None:
    network_and_renderer = SpectralCodec(network, CPU, renderer=NativeRenderer)
    draw = np.random.default_rng(2)
    frames, other = draw.integers(0, SMALL.num_codes, (2, 40, 1)).astype(np.int32)
    sizes = [1, 2, 3, 4, 8, 10, 12]
    (joined,) = spoken(network_and_renderer, [list(cut(frames, sizes, CONTEXT, SMALL.lookahead_frames))])
    wholes = [list(cut(one, [40], CONTEXT, SMALL.lookahead_frames)) for one in (frames, other)]
    offline, beside = spoken(network_and_renderer, wholes)
    np.testing.assert_allclose(joined, offline, rtol=0, atol=1e-6)
    assert np.abs(offline - beside).max() > 0.1 * np.abs(offline).max()


@pytest.fixture
def version(tmp_path: Path, decoder: SpectralDecoder) -> Path:
    decoder.save(tmp_path)
    (tmp_path / "voices.json").write_text("[]", encoding="utf-8")
    return tmp_path


def test_it_serves_on_cpus_that_have_a_compiler(version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(SpectralCodec.load(version, CPU).renderer(1.0), NativeRenderer)

    def fail(source: Path) -> NoReturn:
        raise NativeUnavailable("none of gcc, cc is on the PATH")

    monkeypatch.setattr(native_network, "load_library", fail)
    assert not isinstance(SpectralCodec.load(version, CPU, AUTO).renderer(1.0), NativeRenderer)
    with pytest.raises(ArtifactMismatch, match="engine: native cannot be had here: none of gcc, cc"):
        SpectralCodec.load(version, CPU, NATIVE)


def test_a_size_that_does_not_fill_vectors_is_refused() -> None:
    torch.manual_seed(3)
    odd = SpectralDecoder(SpectralConfig(width=24, inner=48, blocks=1, hidden=16, pitch_width=16))
    with pytest.raises(NativeUnavailable, match="width is 24, not a multiple of 16"):
        NativeNetwork(odd, torch.float32)


def test_a_crowd_sounds_bit_for_bit_as_each_alone(network: NativeNetwork) -> None:
    """Of several lengths and speeds: so what is heard of a stream does not depend on who else is served."""
    codec = SpectralCodec(network, CPU, renderer=NativeRenderer)
    draw = np.random.default_rng(3)
    begun, asked = list[object | None](), list[CodecWindow]()
    for length, speed in zip((5, 24, 24, 9, 44, 31), (1.0, 1.0, 1.2, 0.8, 1.0, 1.2), strict=True):
        frames = draw.integers(0, SMALL.num_codes, (length, 1)).astype(np.int32)
        first, second = cut(frames, [2, length - 2], CONTEXT, SMALL.lookahead_frames)
        (decoded,) = codec.decode([replace(first, speed=speed)], [None])
        begun.append(decoded.state)
        asked.append(replace(second, speed=speed))
    together = codec.decode(asked, begun)
    for window, state, one in zip(asked, begun, together, strict=True):
        (alone,) = codec.decode([window], [state])
        assert np.abs(one.audio).max() > 1e-3
        np.testing.assert_array_equal(one.audio, alone.audio)
