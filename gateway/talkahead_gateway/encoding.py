"""Speech as bytes of an audio format, while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import numpy as np
from av import AudioCodecContext, AudioFrame, AudioStream, FFmpegError, Packet
from av import open as open_container
from av.filter import Graph
from talkahead_client import AudioChunk

P = ParamSpec("P")
T = TypeVar("T")

RATE_HZ = 24_000
"""Of what leaves, where no other is asked for. OpenAI's `pcm` is so by definition, and LiveKit's plugin takes
it for granted."""
TELEPHONE_HZ = 8_000

_RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_BIT_RATE = 64_000
"""Of formats that lose something; for one voice at this rate it is more than can be heard."""
_SOFT, _SOFT_SAMPLES = 0.01, 288
"""Up to this loudness, of 1, speech begins softly; over so many samples as it is encoded, half a frame of
MP3, as what is loud later is not blurred."""
_MAX_BITS_PER_SAMPLE = 6
"""Of those, where a low rate leaves less to be said."""


@dataclass(frozen=True)
class AudioFormat:
    """One value of `response_format`."""

    media_type: str
    container: str
    """FFmpeg's name, as those below."""
    codec: str
    bit_rate: int | None = None
    rate_hz: int = RATE_HZ
    """Where no other is asked for."""
    rates_hz: tuple[int, ...] = _RATES_HZ
    """All that may be asked for."""
    priming_samples: int = 0
    """That a decoder gives back before the speech. Frames in which there is nothing else are left out where
    the speech begins softly, as a decoder blurs what it begins with."""
    container_options: dict[str, str] = field(default_factory=dict)
    codec_options: dict[str, str] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether it is samples, one after the other: half a second takes a tenth of a millisecond."""
        return self.codec.startswith("pcm_")


AUDIO_FORMATS = {
    # Tags and the table of frames in front would have to be written once more at the end, which a stream
    # cannot; a reservoir of bits keeps frames back for three times as long.
    "mp3": AudioFormat(
        "audio/mpeg",
        "mp3",
        "libmp3lame",
        _BIT_RATE,
        # 576 of LAME's, and 529 of every decoder. Below 32 kHz a frame has 576 as well: at 24 kHz, 24 ms less
        # of silence.
        priming_samples=576 + 529,
        container_options={"write_xing": "0", "id3v2_version": "0"},
        # LAME's quality 7 takes 0.6 of the time of its default, 5: a signal to noise of 22.2 dB for 21.0, and
        # a DNSMOS p808 of 4.37 for 4.41.
        codec_options={"reservoir": "0", "compression_level": "7"},
    ),
    # A page would otherwise gather a second of speech before it leaves.
    "opus": AudioFormat(
        "audio/ogg",
        "ogg",
        "libopus",
        _BIT_RATE,
        rates_hz=(8_000, 16_000, 24_000, 48_000),
        container_options={"page_duration": "1"},
    ),
    "aac": AudioFormat("audio/aac", "adts", "aac", _BIT_RATE),
    # Samples; its own choice would be more than the first chunk has.
    "flac": AudioFormat("audio/flac", "flac", "flac", codec_options={"frame_size": "480"}),
    # Its lengths are not known in front: 0xFFFFFFFF, which FFmpeg writes where it cannot seek back.
    "wav": AudioFormat("audio/wav", "wav", "pcm_s16le"),
    "pcm": AudioFormat("audio/pcm", "s16le", "pcm_s16le"),
    # Those of telephones, which OpenAI's interface has not.
    "mulaw": AudioFormat("audio/PCMU", "mulaw", "pcm_mulaw", rate_hz=TELEPHONE_HZ),
    "alaw": AudioFormat("audio/PCMA", "alaw", "pcm_alaw", rate_hz=TELEPHONE_HZ),
}
"""By the names of `response_format`; the first is OpenAI's default."""


class Encoder:
    """Encodes one utterance: what `encode` and at last `finish` return, joined, is a whole file.

    Codecs gather frames of their own length, so that a few hundredths of a second of each chunk come with
    the next one.

    Args:
        audio_format: one of `AUDIO_FORMATS`, or one like it with another bit rate.
        rate_hz: one of the format's.
    """

    def __init__(self, audio_format: AudioFormat, rate_hz: int) -> None:
        self._pipe = _Pipe()
        options = {"flush_packets": "1", "fflags": "+bitexact", **audio_format.container_options}
        self._container = open_container(self._pipe, "w", format=audio_format.container, options=options)
        stream = self._container.add_stream(audio_format.codec, rate=rate_hz, layout="mono")
        assert isinstance(stream, AudioStream)
        self._stream = stream
        self._converter: _Converter | None = None
        self._format = audio_format
        self._omitted_samples = 0
        """That may still be left out."""
        stream.codec_context.options = audio_format.codec_options
        if audio_format.bit_rate is not None:
            self._stream.bit_rate = min(audio_format.bit_rate, _MAX_BITS_PER_SAMPLE * rate_hz)
        self._open()

    def encode(self, chunk: AudioChunk) -> bytes:
        """What of the speech so far can be written; from the server's rate it is resampled without a seam."""
        if self._converter is None:
            self._converter = _Converter(chunk.sample_rate_hz, self._stream.codec_context)
            if _begins_softly(chunk, _SOFT_SAMPLES / self._stream.codec_context.sample_rate):
                self._omitted_samples = self._format.priming_samples
        frame = AudioFrame.from_ndarray(chunk.audio[None], format="flt", layout="mono")  # (1, samples)
        frame.sample_rate = chunk.sample_rate_hz
        self._write(self._converter.convert(frame))
        return self._pipe.take()

    def finish(self) -> bytes:
        """The rest."""
        if self._converter is not None:
            self._write(self._converter.convert(None))
        self._mux(self._stream.encode(None))
        self._container.close()
        return self._pipe.take()

    def _open(self) -> None:
        """All that takes its time, before there is speech that would wait for it: the codec, and the filters
        by which PyAV cuts frames for it. A frame without samples has them made, and is then refused."""
        codec = self._stream.codec_context
        codec.open()
        if codec.frame_size:
            nothing = AudioFrame(codec.format.name, "mono", 0)
            nothing.sample_rate = codec.sample_rate
            with suppress(FFmpegError):
                self._stream.encode(nothing)

    def _write(self, frames: Iterable[AudioFrame]) -> None:
        for frame in frames:
            self._mux(self._stream.encode(frame))

    def _mux(self, packets: Iterable[Packet[AudioStream]]) -> None:
        """All but the packets of which no sample is speech."""
        for packet in packets:
            if self._omitted_samples >= self._stream.codec_context.frame_size > 0:
                self._omitted_samples -= self._stream.codec_context.frame_size
            else:
                self._container.mux(packet)


def _begins_softly(chunk: AudioChunk, seconds: float) -> bool:
    beginning = chunk.audio[: round(seconds * chunk.sample_rate_hz)]
    return float(np.abs(beginning).max()) <= _SOFT


class _Converter:
    """Speech at a server's rate as a codec takes it.

    PyAV's codecs would do that by themselves, with a graph of filters that has a pool of threads. To start
    one takes milliseconds before the first chunk, where the machine is busy. Codecs that take frames of one
    length alone still make theirs, to cut them.
    """

    def __init__(self, source_hz: int, codec: AudioCodecContext) -> None:
        self._graph = Graph()
        self._graph.threads = 1
        source = self._graph.add_abuffer(sample_rate=source_hz, format="flt", layout="mono")
        form = self._graph.add(
            "aformat",
            sample_rates=str(codec.sample_rate),
            sample_fmts=codec.format.name,
            channel_layouts="mono",
        )
        self._graph.link_nodes(source, form, self._graph.add("abuffersink")).configure()

    def convert(self, frame: AudioFrame | None) -> Iterator[AudioFrame]:
        """What can be converted so far; all of it with None, for the end."""
        self._graph.push(frame)
        with suppress(BlockingIOError, EOFError):
            while True:
                converted = self._graph.pull()
                assert isinstance(converted, AudioFrame)
                yield converted


class AsyncEncoder:
    """An `Encoder` in another thread, so that no other stream waits meanwhile; it is opened at once. Plain
    samples need no other thread: to ask one takes longer than what it would do.

    One call at a time, each awaited before the next, keeps the order.
    """

    def __init__(self, audio_format: AudioFormat, rate_hz: int) -> None:
        self._run = _at_once if audio_format.is_plain else asyncio.to_thread
        self._opening = asyncio.ensure_future(self._run(Encoder, audio_format, rate_hz))

    async def encode(self, chunk: AudioChunk) -> bytes:
        encoder = await self._opening
        return await self._run(encoder.encode, chunk)

    async def finish(self) -> bytes:
        encoder = await self._opening
        return await self._run(encoder.finish)


async def _at_once(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return call(*args, **kwargs)


class _Pipe:
    """What FFmpeg writes, until it is taken; it cannot be gone back in."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken
