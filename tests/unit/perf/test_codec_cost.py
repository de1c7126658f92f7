"""Codecs are timed by turns, on windows that go on from a carry."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from talkahead.families.phonemic.spectral_codec import speech_format
from talkahead.families.phonemic.spectral_decoder import SpectralConfig, SpectralDecoder

from instruments.environment import REPOSITORY
from perf.codec import WINDOWS, Cost, main, table

SHIPPED = REPOSITORY / "vocoder" / "1"


def test_every_codec_is_timed_at_every_number_of_windows(tmp_path: Path) -> None:
    small = SpectralConfig(width=16, inner=16, blocks=1)
    SpectralDecoder(small).save(tmp_path / "small")
    speech_format(small, silence=0, max_positions=1_536).save(tmp_path / "small")
    threads = torch.get_num_threads()
    try:
        main([str(SHIPPED), str(tmp_path / "small"), "--rounds", "2", "--out", str(tmp_path / "codec.json")])
    finally:
        torch.set_num_threads(threads)
    samples = json.loads((tmp_path / "codec.json").read_text(encoding="utf-8"))["results"]
    assert [(one["codec"], one["windows"]) for one in samples] == [
        (name, windows) for name in (str(SHIPPED), str(tmp_path / "small")) for windows in WINDOWS
    ]
    assert all(len(one["pass_ms"]) == 2 and min(one["pass_ms"]) > 0 for one in samples)
    assert samples[1]["audio_s"] == 4 * samples[0]["audio_s"]


def test_the_table_compares_with_the_first() -> None:
    rows = table([Cost("a", 1, 0.5, [4.0, 5.0, 9.0]), Cost("b", 1, 0.5, [2.5])])
    assert "| a | 1 | 10.00 | 1.00 |" in rows
    assert "| b | 1 | 5.00 | 0.50 |" in rows
