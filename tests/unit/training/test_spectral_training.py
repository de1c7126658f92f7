"""From texts to a codec that learns them and to what a talker learns from, on a few seconds of speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.errors import TalkaheadError
from talkahead.families.phonemic.spectral_decoder import SpectralConfig

from instruments.dataset import Dataset
from instruments.sentences import split_of
from training import code_corpus, spectral_corpus, store_checkpoint, train_spectral_codec
from training.band_importance import band_importance
from training.spectral_autoencoder import SpectralAutoencoder
from training.train_spectral_codec import Corpus, learn_symbols, losses

TEXTS = ["The ship left at noon.", "Why is it late?", "Nobody knows, she said.", "Stop it!"]
SHAPE = ("--width", "32", "--inner", "48", "--blocks", "2", "--frames", "400", "--warm-up", "2")
FEW = ("--symbol-steps", "5")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for split in ("train", "development"):
        spectral_corpus.build(folder / split, TEXTS, spectral_corpus.SPEEDS, workers=1)
    return folder


def trained(corpus: Path, out: Path, *options: str) -> SpectralAutoencoder:
    threads = torch.get_num_threads()
    try:
        train_spectral_codec.main(["--corpus", str(corpus), "--out", str(out), *SHAPE, *FEW, *options])
    finally:
        torch.set_num_threads(threads)
    return SpectralAutoencoder.load(out)


def test_every_third_text_goes_on_behind_the_one_before(corpus: Path) -> None:
    lengths = [len(row.phones) for row in spectral_corpus.rows(corpus / "train" / "00000.npz")]
    alone = [
        spectral_corpus.teacher().speak(segment.spoken, speed).num_frames
        for text, speed in zip(TEXTS, spectral_corpus.SPEEDS, strict=True)
        for segment in spectral_corpus.segments_of(text)
    ]
    assert lengths[:2] == alone[:2] and lengths[3] == alone[3]
    assert lengths[2] > alone[1] + alone[2] + 15  # with the silence at the edges of the third


def test_a_codec_learns_goes_on_and_keeps_its_codes(corpus: Path, tmp_path: Path) -> None:
    begun = trained(corpus, tmp_path, "--steps", "2")
    longer = trained(corpus, tmp_path, "--steps", "30", "--code-steps", "30")
    batch = next(Corpus(corpus / "development", 400).batches(0))
    assert losses(longer, batch).total < 0.8 * losses(begun, batch).total
    refined = trained(
        corpus, tmp_path / "next", "--steps", "3", "--start", str(tmp_path), "--code-steps", "0"
    )
    for before, after in zip(longer.encoder.parameters(), refined.encoder.parameters(), strict=True):
        assert torch.equal(before, after)
    assert not torch.equal(longer.decoder.inward.weight, refined.decoder.inward.weight)


def test_sounds_name_their_symbols_before_anything_else_is_learned(corpus: Path) -> None:
    torch.manual_seed(0)
    codec = SpectralAutoencoder(SpectralConfig(width=16, inner=16, blocks=1))
    learn = Corpus(corpus / "train", 400)
    learn_symbols(codec, learn, [codec.encoder.sound, codec.reader], 150)
    (batch, *_) = learn.batches(0)
    right = codec.read(codec.encoder.sound(batch.sounds)).argmax(-1) == batch.symbols
    assert right[batch.valid].float().mean() > 0.8
    sounds = [value.clone() for value in codec.encoder.sound.parameters()]
    learn_symbols(codec, learn, [codec.reader], 2)
    assert all(map(torch.equal, sounds, codec.encoder.sound.parameters()))


def test_what_is_understood_counts_more() -> None:
    config = SpectralConfig()
    counts = band_importance(config)
    assert counts.mean() == pytest.approx(1, abs=1e-4)
    at = {
        hertz: float(counts[round(hertz * config.num_fft / config.sample_rate_hz)])
        for hertz in (60, 1_000, 2_000, 9_000)
    }
    assert at[1_000] > at[2_000] > 5 * at[9_000] == 5 * at[60] > 0


def test_a_talker_learns_from_codes_and_the_symbols_that_they_speak(tmp_path: Path) -> None:
    codec = SpectralAutoencoder(SpectralConfig(width=16, inner=16, blocks=1))
    codec.save(tmp_path / "codec")
    path = tmp_path / "dataset.npz"
    code_corpus.prepare(tmp_path / "codec", path, TEXTS, workers=1)
    data = np.load(path)
    assert data["frames"].max() < codec.decoder.config.num_codes
    assert data["num_frames"].sum() == len(data["frames"]) == len(data["spoken"])
    assert set(data["splits"]) == {split_of(text) for text in TEXTS}
    first = slice(0, data["num_frames"][0])
    assert data["spoken"][first].max() < data["num_symbols"][0]
    assert Dataset(path, "train").voice_names == code_corpus.VOICES


def test_a_corpus_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(TalkaheadError, match=r"python -m training\.spectral_corpus"):
        Corpus(tmp_path, 400)


def test_what_is_kept_goes_on_and_says_the_same(tmp_path: Path) -> None:
    torch.manual_seed(0)
    codec = SpectralAutoencoder(SpectralConfig(width=16, inner=16, blocks=1))
    codec.save(tmp_path / "made")
    store_checkpoint.main(["--training", str(tmp_path / "made"), "--folder", str(tmp_path / "kept")])
    kept = SpectralAutoencoder.load(tmp_path / "kept")
    size = (tmp_path / "made" / "codec" / "codec.safetensors").stat().st_size
    assert (tmp_path / "kept" / "codec" / "codec.safetensors").stat().st_size < 0.6 * size
    own, others = ([*one.encoder.parameters(), *one.decoder.parameters()] for one in (codec, kept))
    for one, other in zip(own, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
