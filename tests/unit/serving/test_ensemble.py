"""The models together: references, pauses and early ends, from the request to the audio."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fake_backend import FakeBackend, string
from fake_ensemble import FakeEnsemble, Spoken
from talkahead.config import ModelConfig, SamplingDefaults
from talkahead.generation_config import AlignmentHead, write_sampling
from talkahead.manifest import NAME as MANIFEST
from talkahead.transport.control_client import ControlClient
from talkahead.types import Spoken as Kind
from talkahead.types import Stats
from tiny_voice import HOP, RATE_HZ, SPEECH, describe

OPTIONS = {"seed": 5, "max_seconds": 4.0}


@pytest.fixture
def ensemble(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], listening_repository: Path
) -> Iterator[FakeEnsemble]:
    ensemble = FakeEnsemble(backend, partial(config_of, folder=listening_repository))
    yield ensemble
    ensemble.close()


def reference(seed: int) -> dict[str, np.ndarray]:
    noise = 0.1 * np.random.default_rng(seed).standard_normal(3 * RATE_HZ // 2)
    return {"REFERENCE_AUDIO": noise.astype(np.float32), "REFERENCE_TEXT": string("Nothing but noise.")}


def check(spoken: Spoken) -> Spoken:
    """One stream, whole, in order, ended once."""
    spoken.wait()
    assert spoken.errors == []
    assert [int(chunk["CHUNK_INDEX"][0]) for chunk in spoken.chunks] == list(range(len(spoken.chunks)))
    assert spoken.lasts == [False] * (len(spoken.chunks) - 1) + [True]
    stats = Stats.from_array(spoken.chunks[-1]["STATS"])
    assert len(spoken.audio) == HOP * stats.frames
    return spoken


def test_pauses_are_heard(ensemble: FakeEnsemble) -> None:
    apart = check(ensemble.speak("One.\n\nTwo.", options={"seed": 5}))
    together = check(ensemble.speak("One. Two.", options={"seed": 5}))
    assert len(apart.audio) - len(together.audio) == (SPEECH.frames(0.6) - SPEECH.frames(0.35)) * HOP


def test_references_and_named_voices_side_by_side(ensemble: FakeEnsemble) -> None:
    asked = [{}, reference(1), reference(2), {"VOICE": string("rms")}]
    alone = [check(ensemble.speak("One. Two.", options=OPTIONS, **inputs)).audio for inputs in asked]
    together = [ensemble.speak("One. Two.", options=OPTIONS, **inputs) for inputs in asked]
    for audio, spoken in zip(alone, together, strict=True):
        np.testing.assert_allclose(check(spoken).audio, audio, atol=1e-5)


@pytest.mark.parametrize("inputs", [{}, reference(1)], ids=["named", "reference"])
def test_a_long_text_that_is_cancelled_ends_after_a_few_segments(
    ensemble: FakeEnsemble, inputs: dict[str, np.ndarray]
) -> None:
    spoken = ensemble.speak("Hello there. " * 1_500, id="mine", **inputs)
    assert spoken.begun.wait(30)
    assert ControlClient().cancel(request_id="mine") == 1
    spoken.wait()
    assert spoken.errors == ["CANCELLED: the stream was cancelled"]
    assert spoken.num_segments < 750


def test_a_long_text_that_reaches_max_seconds_ends_after_a_few_segments(ensemble: FakeEnsemble) -> None:
    spoken = check(ensemble.speak("Hello there. " * 1_500, options=OPTIONS))
    assert len(spoken.audio) == 4 * RATE_HZ
    assert spoken.num_segments < 750


def words_of(spoken: Spoken) -> list[tuple[int, int, int, int]]:
    """With the samples of the stream where they begin."""
    begun, found = 0, []
    for chunk in check(spoken).chunks:
        found += [(start, end, begun + sample, kind) for start, end, sample, kind in chunk["WORDS"].tolist()]
        begun += len(chunk["AUDIO"])
    return found


def test_a_talker_without_a_head_for_it_tells_segments(ensemble: FakeEnsemble) -> None:
    one, two = words_of(ensemble.speak("One. Two.", options={"seed": 5}))
    alone = check(ensemble.speak("One.", options={"seed": 5}))
    assert one == (0, 4, 0, Kind.SEGMENT)
    assert two == (5, 9, len(alone.audio) + SPEECH.frames(0.35) * HOP, Kind.SEGMENT)


@pytest.fixture
def aligned(
    backend: FakeBackend,
    config_of: Callable[..., ModelConfig],
    listening_repository: Path,
    tmp_path: Path,
) -> Iterator[FakeEnsemble]:
    """Of a talker that says which of its heads tells words; nobody has taught that head."""
    folder = Path(shutil.copytree(listening_repository, tmp_path / "aligned"))
    talker = folder / "talker" / "1"
    write_sampling(SamplingDefaults(), talker, AlignmentHead(layer=0, head=1))
    (talker / MANIFEST).unlink()
    describe(talker)
    ensemble = FakeEnsemble(backend, partial(config_of, folder=folder))
    yield ensemble
    ensemble.close()


@pytest.mark.parametrize("inputs", [{}, reference(1)], ids=["named", "reference"])
def test_a_talker_with_one_tells_words_however_they_are_cut(
    aligned: FakeEnsemble, inputs: dict[str, np.ndarray]
) -> None:
    text = "One two, three. Four five six!"
    told = words_of(aligned.speak(text, options=OPTIONS, **inputs))
    assert {kind for *_, kind in told} <= {Kind.WORD, Kind.PAUSE}
    places = [place for start, end, *_ in told for place in (start, end)]
    begins = [begin for _, _, begin, _ in told]
    assert places == sorted(places) and begins == sorted(begins) and begins[0] == 0
    assert {text[start:end] for start, end, _, kind in told if kind == Kind.WORD} & {"One", "two", "three"}
    small = aligned.speak(text, options={**OPTIONS, "first_chunk_frames": 1, "chunk_frames": 2}, **inputs)
    assert words_of(small) == told
