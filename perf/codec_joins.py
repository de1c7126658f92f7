"""`python -m perf.codec_joins`: how a codec's windows sound where they meet, in segments and between them.

Frames are decoded at once, which is what streaming is compared with, and in windows as the talker cuts them:
a segment after another one, begun anew as if nothing had been before it, and begun with the frames before it
as its context (`joins_segments`). Told of each place: how far the level of the first 80 ms is from the whole
decode's, how far their spectra are apart, and how sharp the seam is beside its surroundings, where other
places of the same audio are the measure. Codes are drawn at random, or are a recording's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from talkahead.audio.recording import read_wav
from talkahead.engine.windows import WindowPlan
from talkahead.families.contracts import Codec, CodecWindow, Frames, Samples
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

from instruments import report
from instruments.environment import REPOSITORY, Environment
from instruments.measures.joins import sharpness_db
from instruments.recording import Recording
from perf.arguments import at_least

_HEARD_S = 0.08
_FIRST, _FULL = 4, 25
"""New frames of a stream's first window, and of a full one."""
_FFT = 512
_PLACES = ("a segment, begun anew", "a segment, begun in context", "a window amid a segment", "no join")


@dataclass(frozen=True)
class Seam:
    """At one place: differences from the whole decode in decibels, and how sharp it is."""

    place: str
    level_db: float
    spectrum_db: float
    sharpness_db: float


class SegmentDecoder:
    """A codec, and what it makes of frames in windows."""

    def __init__(self, codec: Codec, speech: SpeechFormat) -> None:
        self._codec, self._speech = codec, speech

    def whole(self, frames: Frames) -> Samples:
        return self._codec.decode([CodecWindow.whole(frames.astype(np.int64))], [None])[0].audio

    def segment(self, before: Frames, own: Frames, *, in_context: bool) -> tuple[Samples, list[int]]:
        """The audio of one of a stream's later segments, and at which of its samples windows begin."""
        speech = self._speech
        plan = WindowPlan(speech.context_frames, speech.lookahead_frames, _FIRST, _FULL)
        before = before[-speech.context_frames :] if in_context else before[:0]
        parts, seams, state, start = [], [], None, 0
        while (cut := plan.cut(start, 3 if start else 0, len(own), True)) is not None:
            left = before[len(before) - min(len(before), plan.context - cut.context) :]
            frames = np.concatenate([left, own[cut.first : cut.beyond]]).astype(np.int64)
            window = CodecWindow(frames, len(left) + cut.context, cut.new, cut.lookahead, start)
            (decoded,) = self._codec.decode([window], [state])
            seams.append(start * speech.hop)
            parts.append(decoded.audio)
            state, start = decoded.state, cut.stop
        return np.concatenate(parts), seams


def seams(decoder: SegmentDecoder, speech: SpeechFormat, before: Frames, own: Frames) -> Iterator[Seam]:
    """Of two segments, one after the other."""
    rate, start = speech.sample_rate_hz, len(before) * speech.hop
    whole, first = decoder.whole(np.concatenate([before, own])), decoder.whole(before)
    heard = round(_HEARD_S * rate)
    for place, in_context in zip(_PLACES[:2], (False, True), strict=True):
        audio, places = decoder.segment(before, own, in_context=in_context)
        stream = np.concatenate([first, audio])
        named = [(place, start)]
        if in_context:
            windows = [start + at for at in places[1:]]
            named += [(_PLACES[2], at) for at in windows]
            named += [(_PLACES[3], at + _FULL * speech.hop // 2) for at in windows[:-1]]
        for name, at in named:
            near, wanted = (one[at : at + heard] for one in (stream, whole))
            sharp = sharpness_db(Recording(stream, rate), [at])
            yield Seam(
                name,
                _level_db(near) - _level_db(wanted),
                _apart_db(near, wanted),
                float(sharp[0]) if len(sharp) else np.nan,
            )


def _level_db(audio: Samples) -> float:
    return float(10 * np.log10(np.square(audio, dtype=np.float64).mean() + 1e-10))


def _apart_db(one: Samples, other: Samples) -> float:
    """Mean distance of their spectra, in decibels."""
    return float(np.abs(_spectra_db(one) - _spectra_db(other)).mean())


def _spectra_db(audio: Samples) -> npt.NDArray[np.float64]:
    pieces = np.lib.stride_tricks.sliding_window_view(audio, _FFT)[:: _FFT // 2] * np.hanning(_FFT)
    decibels: npt.NDArray[np.float64] = 20 * np.log10(np.abs(np.fft.rfft(pieces)) + 1e-5)
    return decibels


def rows(found: Sequence[Seam]) -> list[dict[str, str]]:
    """One of each kind of place: means, and of sharpness the median and what one of ten exceeds."""
    made = []
    for place in _PLACES:
        own = [one for one in found if one.place == place]
        sharp = np.percentile([one.sharpness_db for one in own], (50, 90))
        made.append(
            {
                "place": place,
                "level off by": f"{np.mean([abs(one.level_db) for one in own]):.1f} dB",
                "spectrum off by": f"{np.mean([one.spectrum_db for one in own]):.1f} dB",
                "sharpness (1 of 10 above)": f"{sharp[0]:.1f} dB ({sharp[1]:.1f})",
            }
        )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--repository", type=Path, default=REPOSITORY)
    add("--pairs", type=at_least(1), default=10, help="of segments (%(default)s)")
    add("--recording", type=Path, help="a WAV file whose codes are cut into segments, over and over")
    add("--out", type=Path, help="JSON with every place")
    options = parser.parse_args(arguments)
    environment = Environment.record(options.repository)
    torch.set_num_threads(1)
    vocoder = options.repository / "vocoder" / "1"
    speech = SpeechFormat.read(vocoder)
    codec = load_family(speech.family).codec(vocoder, torch.device("cpu"))
    draw, found = np.random.default_rng(0), list[Seam]()
    recorded = None
    if options.recording:
        recorded = codec.encode(read_wav(options.recording, speech.sample_rate_hz))
    for pair in range(options.pairs):
        before, own = (
            draw.integers(0, speech.codebooks, (count, len(speech.codebooks))).astype(np.int32)
            for count in (2 * _FULL + _FIRST, 3 * _FULL + _FIRST)
        )
        if recorded is not None:
            rolled = np.roll(recorded, -7 * pair, axis=0)
            before, own = rolled[: len(before)], rolled[len(before) : len(before) + len(own)]
        found += seams(SegmentDecoder(codec, speech), speech, before, own)
        print(f"pair {pair + 1} of {options.pairs}", file=sys.stderr, flush=True)
    print(report.markdown(rows(found)))
    if options.out:
        settings = {"family": speech.family, "pairs": options.pairs, "is_recorded": recorded is not None}
        report.save(options.out, "codec joins", environment, settings, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
