"""Pictures of speech: the waveform above its mel spectrogram."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from instruments.measures.mel import mel_spectrogram
from instruments.recording import Recording

matplotlib.use("Agg")  # writes files, needs no screen
from matplotlib import pyplot

_RATE_HZ = 16_000
_HOP, _SIZE, _NUM_MELS = 160, 1_024, 80
_INK = "#5b8def"
"""Seen on light pages and on dark ones."""
_DARKEST, _BRIGHTEST, _SILENT = -14.0, 1.0, 1e-10
"""Natural logarithms of power in mel bands; and what is nothing."""
_LOUDEST = 0.7
_HEIGHT = 1.6
_EDGES = {"hspace": 0.05, "left": 0, "right": 1, "bottom": 0, "top": 1}


def draw(recording: Recording, seconds: float, path: Path, width: float) -> None:
    """Writes a PNG on a transparent ground whose time axis is `seconds` long; `width` in inches."""
    samples = recording.at(_RATE_HZ)
    mel = np.log(np.maximum(mel_spectrogram(samples, _SIZE, _HOP, _NUM_MELS), _SILENT)).T
    figure, (wave, spectrum) = pyplot.subplots(
        2, 1, figsize=(width, _HEIGHT), sharex=True, height_ratios=(1, 2), gridspec_kw=_EDGES
    )
    times = np.arange(len(samples)) / _RATE_HZ
    wave.plot(times, samples, color=_INK, linewidth=0.5)
    wave.set(xlim=(0, seconds), ylim=(-_LOUDEST, _LOUDEST))
    spectrum.imshow(
        mel,
        origin="lower",
        aspect="auto",
        cmap="magma",
        vmin=_DARKEST,
        vmax=_BRIGHTEST,
        extent=(0, len(samples) / _RATE_HZ, 0, len(mel)),
    )
    for axis in (wave, spectrum):
        axis.axis("off")
    figure.savefig(path, dpi=150, transparent=True)
    pyplot.close(figure)
