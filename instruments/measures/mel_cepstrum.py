"""Timbre: mel-cepstra and their distance, frame by frame along a time warping, or between averages."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from dtaidistance import dtw, dtw_ndim
from talkahead.audio.mel import LogMel

from instruments.measures.frames import HOP, Audio, Floats, full_scale

COEFFICIENTS = 13
_NUM_MELS = 40
_RANGE_DB = 60.0
"""What is further below the loudest band counts as silence: codecs differ there, and nobody hears it."""
_DB = 20.0 / np.log(10.0)

Indices = npt.NDArray[np.int64]

_log_mel = LogMel(num_fft=512, hop=HOP, num_mels=_NUM_MELS)


def mel_cepstra(audio: Audio) -> Floats:
    """Coefficients 1 to 13 (0, the loudness, is left out) [T, 13], T = len(audio) // HOP.

    Scaled so that the Euclidean distance of two rows is the root mean square difference, in decibels, of the
    spectra that they stand for.
    """
    usable = len(audio) // HOP * HOP
    samples = torch.from_numpy(full_scale(audio[:usable]).astype(np.float32))
    bands = _log_mel(samples[None])[0].numpy().astype(np.float64)
    bands = np.maximum(bands, bands.max() - _RANGE_DB / _DB)
    order, band = np.arange(1, COEFFICIENTS + 1)[:, None], np.arange(_NUM_MELS) + 0.5
    waves = np.sqrt(2.0) * np.cos(np.pi * order * band / _NUM_MELS)
    cepstra: Floats = _DB * bands @ waves.T / _NUM_MELS
    return cepstra


def warping(one: Floats, other: Floats) -> tuple[Indices, Indices]:
    """Indices [L] into each of two sequences [T, D] along the cheapest warping of one onto the other."""
    _, costs = dtw_ndim.warping_paths_fast(one, other, inner_dist="euclidean")
    path = np.array(dtw.best_path(costs))
    return path[:, 0], path[:, 1]


def mean_distance_db(one: Floats, other: Floats) -> float:
    """Mel-cepstral distance of two matched sequences [L, 13], in decibels."""
    return float(np.linalg.norm(one - other, axis=1).mean())
