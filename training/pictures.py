"""Pictures of speech: the waveform above its mel spectrogram."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import torch
from talkahead.audio.mel import LogMel

from instruments.recording import Recording

matplotlib.use("Agg")  # writes files, needs no screen
from matplotlib import pyplot

_RATE_HZ = 16_000
_HOP = 160
_INK = "#5b8def"
"""Seen on light pages and on dark ones."""
_DARKEST, _BRIGHTEST = -7.0, 0.5
"""Natural logarithms of mel magnitudes."""
_LOUDEST = 0.7
_HEIGHT = 1.6
_EDGES = {"hspace": 0.05, "left": 0, "right": 1, "bottom": 0, "top": 1}

_log_mel = LogMel(hop=_HOP)


def draw(recording: Recording, seconds: float, path: Path, width: float) -> None:
    """Writes a PNG on a transparent ground whose time axis is `seconds` long; `width` in inches."""
    samples = recording.at(_RATE_HZ)
    usable = torch.from_numpy(samples[: len(samples) // _HOP * _HOP])
    mel = _log_mel(usable[None])[0].numpy().T
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
