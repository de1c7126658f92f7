"""NeuTTS's NeuCodec, random weights. What it shares with XCodec2 is tested there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from codec_windows import cut, spoken
from fsq_folder import snr_db, write_folder
from talkahead.families.contracts import Frames
from talkahead.families.neutts.codec import NeuCodec
from transformers import NeuCodecModel, SeamlessM4TFeatureExtractor

from instruments.public_codecs import write_decoder

HOP = 480
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("neucodec")


@pytest.fixture(scope="module")
def model(folder: Path) -> NeuCodecModel:
    return write_folder(folder, NeuCodecModel)


@pytest.fixture(scope="module")
def codec(folder: Path, model: NeuCodecModel) -> NeuCodec:
    return NeuCodec.load(folder, CPU)


def draw(count: int, seed: int = 0) -> Frames:
    return np.random.default_rng(seed).integers(0, 65536, (count, 1)).astype(np.int32)


@pytest.mark.parametrize(
    ("sizes", "bound_db"), [([100], 90), ([25] * 4, 10), ([2, 4, 8, 16, 25, 25, 20], 10)]
)
def test_streamed_is_near_what_the_library_decodes_at_once(
    codec: NeuCodec, model: NeuCodecModel, sizes: list[int], bound_db: float
) -> None:
    frames = draw(100)
    with torch.inference_mode():
        codes = torch.from_numpy(frames.astype(np.int64)).T[None]
        wanted = model.decode(audio_codes=codes).audio_values[0, 0]
    windows = list(cut(frames, sizes, codec.context_frames, codec.lookahead_frames))
    [audio] = spoken(codec, [windows])
    assert audio.shape == (100 * HOP,)
    assert snr_db(torch.from_numpy(audio), wanted) > bound_db


def test_encoded_is_as_the_library_encodes_at_its_own_rate(codec: NeuCodec, model: NeuCodecModel) -> None:
    frames = codec.encode(tones(24_000, 20 * HOP))
    padded = np.pad(tones(16_000, 20 * 320), (0, 320))
    features = SeamlessM4TFeatureExtractor()(padded, sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        codes = model.encode(torch.from_numpy(padded)[None, None], features["input_features"]).audio_codes
    assert frames.shape == (20, 1) and frames.dtype == np.int32
    assert len(set(frames[:, 0].tolist())) > 1
    assert (frames[:, 0] == codes[0, 0].numpy()).mean() > 0.9  # what is resampled differs in the last bits


def tones(rate_hz: int, count: int) -> np.ndarray:
    """Whole periods of 200, 1,000 and 7,000 Hz, the same sound at any rate."""
    time = np.arange(count) / rate_hz
    return sum(0.1 * np.sin(2 * np.pi * hertz * time) for hertz in (200, 1000, 7000)).astype(np.float32)


def test_format(codec: NeuCodec) -> None:
    speech = codec.speech_format(max_positions=2048, segment_positions=900)
    assert (speech.family, speech.sample_rate_hz, speech.hop) == ("neutts", 24_000, HOP)
    assert (speech.codebooks, speech.steps_per_frame, speech.frames_per_s) == ((65536,), 1, 50)
    assert (speech.context_frames, speech.lookahead_frames) == (50, 5)
    assert list(speech.silence) == codec.encode(np.zeros(50 * HOP, np.float32))[25].tolist()


def test_the_published_shape(tmp_path: Path) -> None:
    write_decoder(tmp_path, NeuCodecModel)
    speech = NeuCodec.load(tmp_path, CPU).speech_format(2048, 900, silence=(7,))
    assert (speech.sample_rate_hz, speech.hop, speech.codebooks) == (24_000, 480, (65536,))
