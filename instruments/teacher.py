"""The teacher: flite's voices through its C library (Debian `libflite1`), with the phones it spoke and when.

`flite_synth_text` releases the GIL inside ctypes, but flite keeps global state: one `Teacher` per process.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from talkahead.audio.speech_edges import AFTER_S, BEFORE_S

SAMPLE_RATE = 16_000
VOICES = ("slt", "rms", "awb", "kal16")
_PAUSE = "pau"


@dataclass(frozen=True)
class Phone:
    """A phone of the teacher and its end, in seconds from the start of the returned audio."""

    name: str
    end_s: float


@dataclass(frozen=True)
class Utterance:
    """int16 mono audio at 16 kHz, edges trimmed, and its phones."""

    audio: npt.NDArray[np.int16]
    phones: tuple[Phone, ...]


class _Wave(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_char_p),
        ("sample_rate", ctypes.c_int),
        ("num_samples", ctypes.c_int),
        ("num_channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    )


def _library(name: str) -> ctypes.CDLL:
    path = ctypes.util.find_library(name)
    if path is None:
        raise FileNotFoundError(f"lib{name}.so is missing; get it with: apt-get install libflite1")
    return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def _signatures(lib: ctypes.CDLL) -> None:
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("flite_synth_text", pointer, [text, pointer]),
        ("utt_wave", ctypes.POINTER(_Wave), [pointer]),
        ("utt_relation", pointer, [pointer, text]),
        ("relation_head", pointer, [pointer]),
        ("item_next", pointer, [pointer]),
        ("item_feat_string", text, [pointer, text]),
        ("item_feat_float", ctypes.c_float, [pointer, text]),
        ("delete_utterance", None, [pointer]),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments


class Teacher:
    """Speaks normalised words with flite's voices.

    Args:
        edge_s: silence kept before the first and after the last phone: (before, after), in seconds.

    Raises:
        FileNotFoundError: flite's libraries are not installed.
    """

    def __init__(self, edge_s: tuple[float, float] = (BEFORE_S, AFTER_S)) -> None:
        self._edge_s = edge_s
        self._lib = _library("flite")
        _signatures(self._lib)
        self._lib.flite_init()
        self._voices = {voice: self._register(voice) for voice in VOICES}

    @staticmethod
    def _register(voice: str) -> int:
        register = getattr(_library(f"flite_cmu_us_{voice}"), f"register_cmu_us_{voice}")
        register.restype, register.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        return int(register(None))

    def speak(self, words: str, voice: str) -> Utterance:
        """Speaks `words` (lower-case words and . , ? !) and trims the silent edges."""
        utterance = self._lib.flite_synth_text(words.encode("ascii"), self._voices[voice])
        try:
            wave = self._lib.utt_wave(utterance).contents
            if wave.sample_rate != SAMPLE_RATE:
                raise ValueError(f"voice {voice!r} speaks at {wave.sample_rate} Hz, expected {SAMPLE_RATE}")
            audio = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).copy()
            return self._trim(audio, self._phones(utterance))
        finally:
            self._lib.delete_utterance(utterance)

    def _phones(self, utterance: int) -> list[Phone]:
        phones = []
        item = self._lib.relation_head(self._lib.utt_relation(utterance, b"Segment"))
        while item:
            name = self._lib.item_feat_string(item, b"name").decode()
            phones.append(Phone(name, self._lib.item_feat_float(item, b"end")))
            item = self._lib.item_next(item)
        return phones

    def _trim(self, audio: npt.NDArray[np.int16], phones: list[Phone]) -> Utterance:
        spoken = [index for index, phone in enumerate(phones) if phone.name != _PAUSE]
        if not spoken:
            return Utterance(audio[:0], ())
        first, last = spoken[0], spoken[-1]
        start_s = max(0.0, (phones[first - 1].end_s if first else 0.0) - self._edge_s[0])
        end_s = min(len(audio) / SAMPLE_RATE, phones[last].end_s + self._edge_s[1])
        cut = audio[round(start_s * SAMPLE_RATE) : round(end_s * SAMPLE_RATE)]
        kept = tuple(Phone(phone.name, phone.end_s - start_s) for phone in phones[first : last + 1])
        return Utterance(cut, kept)
