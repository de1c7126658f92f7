"""The neural teacher: hibari's voice `heart` (Apache-2.0), driven by our frontend's symbols.

Its network says in 12.5 ms subframes what its renderer needs: four spectra and a pitch. Before its decoder
stand, in frames of two subframes, the features of the symbol that is being spoken, and pitch and energy: all
that the decoder knows. A codec that keeps these keeps the voice.

Shapes: L letters, F frames, S = 2 F subframes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import hibari
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from hibari import dsp
from talkahead.families.phonemic.spectral_codec import UNHEARD_FRAMES
from talkahead.text.prosody import SpokenWord

from instruments.recording import Recording
from instruments.teacher_phonemes import phonemes

SAMPLE_RATE = dsp.SR
SUBFRAMES = 2
"""In each frame."""
HOP = SUBFRAMES * dsp.HOP
"""Samples of a frame."""
_FRAMES_AFTER = 3
"""Kept after the speech, in frames of 25 ms."""
_LATE = 2
"""Frames by which the teacher's letters lag behind their sounds: hiss fits the letters best so."""
_AUDIBLE = -0.5
"""Energy, as the decoder is told it, of about -60 dB."""
_TOLD, _DURATIONS = "/Concat_43_output_0", "/Clip_output_0"
_HIDDEN, _HERTZ = "/dec_norm/LayerNormalization_output_0", "f0"
"""Tensors of the network: what its decoder is told, frames of each letter, what its last layer makes the
spectra of, and the pitch."""
_SPECTRA = ("lh", "theta", "ln", "lr", "phi")

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Description:
    """What the teacher's decoder is told of a segment, its silent edges cut to a frame or three.

    Args:
        spoken: int16 [F], the symbol heard in each frame as an index into the segment's.
        phones: [F, 128], features of the letter that is heard, alike in all its frames.
        prosody: [S, 2], pitch and energy.
    """

    spoken: npt.NDArray[np.int16]
    phones: Floats
    prosody: Floats

    @property
    def num_frames(self) -> int:
        return len(self.spoken)


@dataclass(frozen=True)
class Speech(Description):
    """And what the decoder makes of it.

    Args:
        hidden: [S, 256], after the decoder's last layer but the linear one that gives the spectra.
        hertz: [S], below 40 where unvoiced.
    """

    hidden: Floats
    hertz: Floats


class NeuralTeacher:
    """Speaks segments of the frontend.

    Args:
        threads: of the network.
    """

    def __init__(self, threads: int = 1) -> None:
        self._voice = hibari.Hibari(threads=threads)
        self._model = onnx.load(self._voice.model_path)
        self._threads = threads
        self._sessions: dict[tuple[str, ...], onnxruntime.InferenceSession] = {}

    def describe(self, words: Sequence[SpokenWord], speed: float = 1.0) -> Description:
        """Words and pauses of one segment, the last one a pause. `speed` 1 is the teacher's own pace."""
        told: Description = self._said(words, speed, True)[0]
        return told

    def speak(self, words: Sequence[SpokenWord], speed: float = 1.0, is_cut: bool = True) -> Speech:
        """The same, and how it sounds; with a third of a second of silence at either end if it is not cut."""
        told, kept, hidden, hertz = self._said(words, speed, is_cut, _HIDDEN, _HERTZ)
        return Speech(**vars(told), hidden=hidden[0, kept].copy(), hertz=hertz[0, kept].copy())

    def recording(self, words: Sequence[SpokenWord]) -> Recording:
        """A segment's audio, at the teacher's own pace, from where a server's speech begins."""
        speech = self.speak(words)
        return heard(self.render(speech.hidden, speech.hertz))

    def _said(self, words: Sequence[SpokenWord], speed: float, is_cut: bool, *others: str) -> tuple[Any, ...]:
        """The description, the subframes that it keeps, and other tensors of the network, uncut."""
        said = phonemes(words)
        ids = self._voice.ids(said.text)
        assert len(ids) == len(said.owners) + 2, f"a letter that the teacher lacks: {said.text}"
        given = {"ids": np.array([ids], np.int64), "speed": np.array([speed], np.float32)}
        names = (_TOLD, _DURATIONS, *others)
        told, durations, *made = self._session(names).run(list(names), given)
        owners = np.array([0, *said.owners, said.owners[-1]], np.int16).repeat(durations.astype(np.int64))
        told = told[0].T
        ahead = np.minimum(np.arange(len(owners)) + _LATE, len(owners) - 1)
        first, beyond = _edges(told[:, -1].reshape(-1, SUBFRAMES).max(axis=1)) if is_cut else (0, len(owners))
        kept = slice(SUBFRAMES * first, SUBFRAMES * beyond)
        heard = ahead[first:beyond]
        described = Description(owners[heard], told[SUBFRAMES * heard, :-2], told[kept, -2:].copy())
        return described, kept, *made

    def _session(self, names: tuple[str, ...]) -> onnxruntime.InferenceSession:
        """The network as far as it is needed for these tensors."""
        if names not in self._sessions:
            asked = onnx.ModelProto()
            asked.CopyFrom(self._model)
            del asked.graph.output[:]
            asked.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = self._threads
            options.log_severity_level = 3
            self._sessions[names] = onnxruntime.InferenceSession(
                asked.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        return self._sessions[names]

    def render(self, hidden: Floats, hertz: Floats, seed: int = 0) -> Floats:
        """Audio of [S, 256] and [S] by the teacher's own last layer and renderer, `dsp.HOP` samples each."""
        spectra = (hidden @ self.head[0] + self.head[1]).T.astype(np.float32)
        parts = np.split(np.ascontiguousarray(spectra), len(_SPECTRA))
        audio: Floats = dsp.synth(*parts, hertz, np.random.default_rng(seed))
        return audio

    def spectral_head(self) -> tuple[Floats, Floats]:
        """The last layer without the rotation of the voice, which is not heard: [256, 4 * 601], [4 * 601]."""
        weight, bias = self.head
        kept = np.arange(len(bias)).reshape(len(_SPECTRA), -1)[[name != "theta" for name in _SPECTRA]].ravel()
        return weight[:, kept], bias[kept]

    @cached_property
    def head(self) -> tuple[Floats, Floats]:
        """The last layer: [256, 5 * 601] and [5 * 601], the spectra one after the other."""
        stored = {one.name: onnx.numpy_helper.to_array(one) for one in self._model.graph.initializer}
        whole = "/head/Transpose_output_0"
        scale, zero = stored[f"{whole}_scale"], stored[f"{whole}_zero_point"].astype(np.float32)
        weight = (stored[f"{whole}_quantized"].astype(np.float32) - zero) * scale
        return weight.astype(np.float32), stored["m.head.bias"].astype(np.float32)


def heard(audio: Floats) -> Recording:
    """Audio of all frames of a segment, without those that no server makes audio of."""
    return Recording(audio[UNHEARD_FRAMES * HOP :], SAMPLE_RATE)


def _edges(energy: Floats) -> tuple[int, int]:
    """From a little before the first audible frame to a little after the last one, of the energy [F]."""
    audible = np.flatnonzero(energy > _AUDIBLE)
    return max(int(audible[0]) - UNHEARD_FRAMES, 0), min(int(audible[-1]) + 1 + _FRAMES_AFTER, len(energy))
