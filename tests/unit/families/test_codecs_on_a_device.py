"""Codecs and prompt encoders away from the CPU: what they are given is brought there, what they made is
fetched, and nothing of one side meets the other in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from device_traffic import BRINGING, META, Traffic
from fsq_folder import write_folder
from public_folders import SMALL_SNAC
from talkahead.families.contracts import Codec, CodecWindow
from talkahead.families.phonemic.prompt import PhonemePromptEncoder
from talkahead.families.phonemic.spectral_codec import SpectralCodec

from instruments.public_codecs import write_snac

REPOSITORY = Path(__file__).parents[3] / "model_repository"


def shipped(folder: Path, device: torch.device) -> Codec:
    return SpectralCodec.load(REPOSITORY / "vocoder" / "1", device)


def orpheus(folder: Path, device: torch.device) -> Codec:
    pytest.importorskip("snac")
    from talkahead.families.orpheus.codec import SnacCodec, convert_weights

    (folder / "made").mkdir()
    convert_weights(write_snac(folder / "published", SMALL_SNAC), folder / "made")
    return SnacCodec.load(folder / "made", device)


def llasa(folder: Path, device: torch.device) -> Codec:
    transformers = pytest.importorskip("transformers")
    from talkahead.families.llasa.codec import load_codec

    write_folder(folder, transformers.Xcodec2Model)
    return load_codec(folder, device)


CODECS = {"shipped": (shipped, 1), "orpheus": (orpheus, 7), "llasa": (llasa, 1)}


@pytest.mark.parametrize(("make", "codebooks"), CODECS.values(), ids=CODECS)
def test_windows_are_brought_to_the_device_and_audio_is_fetched(
    make: Callable[[Path, torch.device], Codec], codebooks: int, tmp_path: Path
) -> None:
    codec = make(tmp_path, META)
    frames = np.random.default_rng(0).integers(0, 16, (15, codebooks))
    windows = [CodecWindow(frames, 3, 10, 2, position) for position in (3, 13)]
    with Traffic() as traffic, pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        codec.decode(windows, [None, None])
    assert traffic.kinds & BRINGING and not traffic.kinds - BRINGING - {"_has_compatible_shallow_copy_type"}


def test_symbols_are_brought_to_the_device() -> None:
    encoder = PhonemePromptEncoder.load(REPOSITORY / "encoder" / "1", META)
    with Traffic() as traffic, torch.inference_mode():
        prompt = encoder.prompt(np.zeros((12, 4), np.int32), 0, None)
    assert prompt.device == META and prompt.shape[1] == encoder.width
    assert traffic.kinds and not traffic.kinds - BRINGING


@pytest.mark.needs("gpu")
@pytest.mark.parametrize(("make", "codebooks"), CODECS.values(), ids=CODECS)
def test_on_a_gpu_a_codec_sounds_as_on_a_cpu(
    make: Callable[[Path, torch.device], Codec], codebooks: int, tmp_path: Path
) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cuda").mkdir()
    frames = np.random.default_rng(0).integers(0, 16, (15, codebooks))
    windows = [CodecWindow(frames, 3, 10, 2, position) for position in (3, 13)]
    sounds = [
        [one.audio for one in make(tmp_path / kind, torch.device(kind)).decode(windows, [None, None])]
        for kind in ("cpu", "cuda")
    ]
    for cpu, cuda in zip(*sounds, strict=True):
        np.testing.assert_allclose(cuda, cpu, atol=2e-2)
