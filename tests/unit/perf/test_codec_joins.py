"""Segments that begin in context are nearer to the whole decode than those that begin anew."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from fsq_folder import write_folder
from talkahead.families.llasa.codec import Xcodec2Codec
from transformers import Xcodec2Model

from perf import codec_joins
from perf.codec_joins import SegmentDecoder, seams


def test_seams_are_told_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "vocoder" / "1", Xcodec2Model)
    codec = Xcodec2Codec.load(tmp_path / "vocoder" / "1", torch.device("cpu"))
    speech = codec.speech_format(2048, 1433)
    draw = np.random.default_rng(0)
    found = []
    for _ in range(3):
        before, own = (draw.integers(0, 65_536, (count, 1)).astype(np.int32) for count in (54, 79))
        found += list(seams(SegmentDecoder(codec, speech), speech, before, own))
    anew, joined = (
        np.mean([one.spectrum_db for one in found if one.place == place]) for place in codec_joins._PLACES[:2]
    )
    assert joined < 0.7 * anew
    assert len([one for one in found if one.place == "a window amid a segment"]) == 3 * 3
    speech.save(tmp_path / "vocoder" / "1")
    out = tmp_path / "joins.json"
    assert codec_joins.main(["--repository", str(tmp_path), "--pairs", "1", "--out", str(out)]) == 0
    assert capsys.readouterr().out.count(" dB") == 3 * 4
    told = json.loads(out.read_text(encoding="utf-8"))
    assert {one["place"] for one in told["results"]} == set(codec_joins._PLACES)
