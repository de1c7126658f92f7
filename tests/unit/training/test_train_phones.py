"""The classifier of phones is shown what the teacher said when, and learns to hear it."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from talkahead.audio.mel import LogMel

from instruments.teacher import SAMPLE_RATE, Phone
from training import corpus, train_phones
from training.corpus import Entry
from training.phone_classifier import HOP, PhoneClassifier
from training.train_phones import FRAMES, SpokenCrops

TONES_HZ = {"aa": 300.0, "iy": 2_000.0}
_BEGIN_S = 0.7


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    """Utterances that say "aa" by a low tone and then "iy" by a high one."""
    time_s = np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE
    tone_hz = np.where(time_s < _BEGIN_S, TONES_HZ["aa"], TONES_HZ["iy"])
    shard = tmp_path / "00000.i16"
    (8_000 * np.sin(2 * np.pi * tone_hz * time_s)).astype(np.int16).tofile(shard)
    phones = (Phone("aa", _BEGIN_S), Phone("iy", 1.9))
    return [Entry("a e.", "rms", split, phones, shard, 0, len(time_s)) for split in ("train", "development")]


def test_each_frame_is_labelled_with_what_sounds_in_it(entries: list[Entry]) -> None:
    mel, loudest = LogMel(num_fft=512, hop=HOP), {}
    for crops in islice(SpokenCrops(entries, batch=8, seed=1), 4):
        assert crops.audio.shape == (8, FRAMES * HOP)
        for index in (0, 1):
            peaks = mel(crops.audio).argmax(-1)[crops.phones == index]
            loudest[index] = float(peaks.float().median())
            assert (peaks - loudest[index]).abs().float().quantile(0.9) < 2
        assert set(crops.phones.unique().tolist()) <= {-100, 0, 1}
    assert loudest[0] < loudest[1]


def test_training_goes_on_where_it_stopped_and_learns(
    entries: list[Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(corpus, "read", lambda folder: entries)
    monkeypatch.setattr(SpokenCrops, "read_ahead", lambda crops: iter(crops))
    for steps in (50, 60):
        words = ["--out", str(tmp_path), "--steps", str(steps), "--batch", "4"]
        monkeypatch.setattr(sys, "argv", ["train_phones", *words])
        train_phones.main()
    said = capsys.readouterr().out
    assert "step 50/50" in said
    assert float(said.split("held-out ")[-1].split()[0]) < 0.2
    assert PhoneClassifier.load(tmp_path / "phones.safetensors").outward.out_features == 64
