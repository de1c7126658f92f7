"""The neural teacher says our symbols, when it says them, and how its renderer is told to sound."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead.audio.speech_edges import speech_span
from talkahead.text import TextFrontend
from talkahead.text.frontend import TextSegment
from talkahead.text.symbols import SYMBOLS

from instruments.neural_teacher import HOP, SAMPLE_RATE, NeuralTeacher, Speech


@pytest.fixture(scope="module")
def teacher() -> NeuralTeacher:
    return NeuralTeacher()


@pytest.fixture(scope="module")
def segment() -> TextSegment:
    (one,) = TextFrontend().segments("She saw the ship.")
    return one


@pytest.fixture(scope="module")
def speech(teacher: NeuralTeacher, segment: TextSegment) -> Speech:
    return teacher.speak(segment.spoken)


def test_shapes_fit(speech: Speech) -> None:
    frames = speech.num_frames
    assert speech.phones.shape == (frames, 128)
    assert speech.prosody.shape == (2 * frames, 2)
    assert speech.hidden.shape == (2 * frames, 256)
    assert speech.hertz.shape == (2 * frames,)


def test_every_symbol_has_its_time(speech: Speech, segment: TextSegment) -> None:
    assert np.all(np.diff(speech.spoken) >= 0)
    closing = len(segment.symbols) - 1
    assert set(range(closing)) <= set(speech.spoken.tolist())


def test_hiss_is_where_the_symbols_say(teacher: NeuralTeacher, speech: Speech, segment: TextSegment) -> None:
    """Above 4 kHz against below 2.4 kHz; symbols that come two frames too late make no difference at all."""
    frames = teacher.render(speech.hidden, speech.hertz).reshape(-1, HOP)
    power = np.abs(np.fft.rfft(frames * np.hanning(HOP))) ** 2
    hiss = np.log(power[:, 100:250].sum(axis=1)) - np.log(power[:, 5:60].sum(axis=1))
    names = np.array([SYMBOLS[symbol] for symbol in segment.symbols[speech.spoken, 0]])

    def mean(wanted: list[str]) -> float:
        return float(hiss[np.isin(names, wanted)].mean())

    assert mean(["SH", "S"]) > mean(["IY1", "AO1", "IH1", "AH0"]) + 4


def test_silent_edges_are_cut(teacher: NeuralTeacher, segment: TextSegment, speech: Speech) -> None:
    first, beyond = speech_span(teacher.render(speech.hidden, speech.hertz), SAMPLE_RATE)
    assert first <= 0.055 * SAMPLE_RATE
    assert beyond >= (speech.num_frames - 6) * HOP
    whole = teacher.speak(segment.spoken, is_cut=False)
    assert whole.num_frames > speech.num_frames + 15
    assert np.any(np.all(whole.hidden[: len(whole.hidden)] == speech.hidden[0], axis=1))


def test_a_description_is_what_speech_is_made_of(
    teacher: NeuralTeacher, segment: TextSegment, speech: Speech
) -> None:
    told = teacher.describe(segment.spoken)
    np.testing.assert_array_equal(told.spoken, speech.spoken)
    np.testing.assert_allclose(told.phones, speech.phones, atol=1e-5)
    np.testing.assert_allclose(told.prosody, speech.prosody, atol=1e-5)


def test_speed_changes_the_length(teacher: NeuralTeacher, segment: TextSegment, speech: Speech) -> None:
    slow, fast = (teacher.describe(segment.spoken, speed).num_frames for speed in (0.8, 1.25))
    assert slow > 1.1 * speech.num_frames > 1.2 * fast


def test_its_last_layer_gives_its_spectra(teacher: NeuralTeacher, speech: Speech) -> None:
    """Eight bits of activations apart, as the network rounds them and we do not."""
    weight, bias = teacher.spectral_head()
    assert weight.shape == (256, 4 * 601)
    assert bias.shape == (4 * 601,)
    audio = teacher.render(speech.hidden, speech.hertz)
    assert len(audio) == speech.num_frames * HOP
    assert 0.05 < np.abs(audio).max() <= 1.0
