"""The codec's windows join into its offline decode, and padding changes nothing (DESIGN 3.7, rung a)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.audio.codec import Codec, CodecConfig, sum_overlapping
from talkahead.audio.pitch import PERIOD

SMALL = CodecConfig(encoder_width=16, encoder_blocks=1, decoder_width=24, decoder_hidden=32, decoder_blocks=2)


@pytest.fixture(scope="module")
def codec() -> Codec:
    torch.manual_seed(3)
    return Codec(SMALL).double().eval().requires_grad_(False)


def decode_in_windows(
    codec: Codec, codes: torch.Tensor, cuts: list[int], context: int, padding: int
) -> torch.Tensor:
    """Decodes codes [1, T] window by window, each padded on both sides with noise."""
    hop, lookahead, length = codec.config.hop, codec.config.lookahead_frames, codes.shape[1]
    counter, pieces = codec.config.phase_counter, []
    for first, last in zip([0, *cuts], [*cuts, length], strict=True):
        start, end = max(0, first - context), min(length, last + lookahead)
        noise = torch.randint(codec.config.codebook_size, (1, padding))
        window = torch.cat([noise, codes[:, start:end], noise], dim=1)
        bounds = torch.tensor([padding]), torch.tensor([padding + end - start])
        phase = counter.passed(codes[0, : start + 1].numpy()) % PERIOD
        pcm = codec.decode_windows(window, *bounds, torch.tensor([phase]))
        offset = padding + first - start
        pieces.append(pcm[:, offset * hop : (offset + last - first) * hop])
    return torch.cat(pieces, dim=1)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_windows_join_into_the_offline_decode(codec: Codec, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 40))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, length - 1)), max_size=6)) - {length})
    codes = torch.randint(SMALL.codebook_size, (1, length), generator=torch.Generator().manual_seed(length))
    joined = decode_in_windows(codec, codes, cuts, SMALL.context_frames, data.draw(st.integers(0, 3)))
    assert joined.shape == (1, length * SMALL.hop)
    torch.testing.assert_close(joined, codec.decode(codes), rtol=0, atol=1e-9)


def test_a_window_with_too_little_context_differs(codec: Codec) -> None:
    codes = torch.randint(SMALL.codebook_size, (1, 40), generator=torch.Generator().manual_seed(0))
    joined = decode_in_windows(codec, codes, [20], SMALL.context_frames - 1, padding=0)
    assert (joined - codec.decode(codes)).abs().max() > 1e-9


def test_shipped_shape_states_its_receptive_field() -> None:
    config = CodecConfig()
    assert config.context_frames == 12
    assert config.lookahead_frames <= 3
    assert config.sample_rate_hz / config.hop == 50


def test_a_window_of_another_phase_differs(codec: Codec) -> None:
    codes = torch.full((1, 20), SMALL.codebook_size - 1)
    none = torch.tensor([0])
    one, other = (
        codec.decode_windows(codes, none, none + 20, torch.tensor([phase])) for phase in (0, PERIOD // 4)
    )
    assert (one - other).abs().max() > 1e-3


def test_neighbours_in_a_batch_change_nothing(codec: Codec) -> None:
    codes = torch.randint(SMALL.codebook_size, (5, 30), generator=torch.Generator().manual_seed(1))
    ends = torch.tensor([30, 4, 17, 30, 1])
    together = codec.decode_windows(codes, torch.zeros_like(ends), ends, torch.zeros_like(ends))
    for row, end in enumerate(ends.tolist()):
        alone = codec.decode(codes[row : row + 1, :end])
        torch.testing.assert_close(together[row : row + 1, : end * SMALL.hop], alone, rtol=0, atol=1e-9)


def test_encoding_ignores_padding(codec: Codec) -> None:
    audio = torch.randn(1, 10 * SMALL.hop, dtype=torch.float64) * 0.1
    longer = torch.cat([audio, torch.zeros(1, 5 * SMALL.hop, dtype=torch.float64)], dim=1)
    short = codec.encode(audio, torch.tensor([10]))
    assert torch.equal(codec.encode(longer, torch.tensor([10]))[:, :10], short)


def test_overlapping_pieces_add_up() -> None:
    pieces = torch.tensor([[[1.0, 1.0, 1.0, 1.0], [10.0, 10.0, 10.0, 10.0]]])
    assert sum_overlapping(pieces, 2).tolist() == [[1.0, 1.0, 11.0, 11.0, 10.0, 10.0]]


def test_an_artifact_loads_as_it_was_saved(tmp_path: Path) -> None:
    Codec(SMALL).half().save(tmp_path)
    loaded = Codec.load(tmp_path)
    assert loaded.config == SMALL
    assert next(loaded.parameters()).dtype == torch.float32
