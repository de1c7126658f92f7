"""What trainings of hours have left behind fits what is shipped, and can be gone on with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.backbone.llama import Llama
from talkahead.drafting.draft_artifact import Draft
from talkahead.families.contracts import CodecWindow, Samples
from talkahead.families.phonemic.spectral_codec import SpectralCodec
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.text.symbols import NUM_SYMBOLS

from instruments.environment import REPOSITORY, ROOT
from training.code_corpus import VOICES
from training.export import silence_code
from training.spectral_autoencoder import FRAME_ENCODER, SpectralAutoencoder
from training.spectral_corpus import segments_of, teacher

CHECKPOINTS = ROOT / "training" / "checkpoints"
NEXT = CHECKPOINTS / "next"
MAX_SITTING_MB = 60
TRAINED = {"shipped": (CHECKPOINTS, REPOSITORY / "talker" / "1", REPOSITORY / "encoder" / "1")}
if (NEXT / "talker").exists():
    TRAINED["next"] = (NEXT, NEXT / "talker", NEXT / "encoder")
CODECS = [folder for folder in (CHECKPOINTS, NEXT) if (folder / FRAME_ENCODER).exists()]
"""One may wait for a talker that learns its codes, as a talker may that speaks the shipped ones."""


@pytest.fixture(scope="module", params=CODECS, ids=lambda folder: folder.name)
def codec(request: pytest.FixtureRequest) -> SpectralAutoencoder:
    return SpectralAutoencoder.load(request.param).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def paused(codec: SpectralAutoencoder) -> tuple[Samples, int]:
    """A sentence and half a second of silence after it, and where that begins."""
    (segment,) = segments_of("The juice of lemons makes fine punch.")
    spoken = codec.frames_of(teacher().describe(segment.spoken))
    frames = np.concatenate([spoken, np.full((20, 1), silence_code(codec))])
    speaker = SpectralCodec(codec.decoder, torch.device("cpu"))
    (decoded,) = speaker.decode([CodecWindow(frames, 0, len(frames), 0, position=0)], [None])
    return decoded.audio, len(spoken) * codec.decoder.config.hop


def level_db(audio: Samples) -> float:
    return float(10 * np.log10(np.mean(np.square(audio, dtype=np.float64)) + 1e-12))


def test_silence_behind_speech_is_silent(paused: tuple[Samples, int]) -> None:
    audio, silent = paused
    assert level_db(audio[:silent]) > -35
    assert level_db(audio[silent + 2_400 :]) < level_db(audio[:silent]) - 35


@pytest.mark.parametrize("folder", sorted(NEXT.glob("drafts/*")), ids=lambda folder: folder.name)
def test_drafts_that_wait_follow_the_shipped_talker(folder: Path) -> None:
    assert Draft.load(folder, REPOSITORY / "talker" / "1").drafter == folder.name


def test_they_are_small() -> None:
    """A codec, and in another sitting the voice that speaks its codes."""
    sizes = {path: path.stat().st_size for path in Path(CHECKPOINTS).rglob("*.safetensors")}
    voice = sum(size for path, size in sizes.items() if path.parent.name in ("talker", "encoder"))
    assert 0 < sum(sizes.values()) - voice < MAX_SITTING_MB * 1e6 and voice < MAX_SITTING_MB * 1e6


@pytest.mark.parametrize(
    ("checkpoint", "talker_folder", "encoder_folder"), TRAINED.values(), ids=TRAINED.keys()
)
def test_talker_encoder_and_codec_fit_together(
    checkpoint: Path, talker_folder: Path, encoder_folder: Path
) -> None:
    codec = SpectralAutoencoder.load(checkpoint if checkpoint in CODECS else CHECKPOINTS)
    talker, encoder = Llama.load(talker_folder), TextEncoder.load(encoder_folder)
    assert talker.config.eos == codec.decoder.config.num_codes == talker.config.vocab_size - 1
    assert encoder.config.width == talker.config.hidden_size
    assert encoder.config.voices == VOICES
    assert encoder.config.num_symbols == NUM_SYMBOLS
