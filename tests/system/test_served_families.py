"""Public checkpoints through the real server: imported by the command, spoken as the reference packages do.

Weights are random; what is compared is who draws which token, and what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hearing import Audio, difference
from imported import (
    SAME_FRAMES,
    Imported,
    imported,
    write_deaf_neutts,
    write_llasa,
    write_neutts,
    write_orpheus,
)
from public_folders import Public
from talkahead.families.orpheus.codec import SnacCodec
from talkahead_client import InvalidRequest, Reference
from talkahead_client.protocol import ParameterValue
from texts import prose
from waiting import eventually

# SNAC's library scripts a function with torch.jit when it is imported.
pytestmark = [pytest.mark.patient, pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")]

TEXTS = ("Hello there, fine punch!", "My name is Leo.", "The depth of a well.", "Isn't it easy?")
SAID = "It's easy to tell."
SECONDS = 1.2
MADE: Mapping[str, tuple[str, Callable[[Path, Path], Public], tuple[str, ...]]] = {
    "llasa": ("llasa", write_llasa, ()),
    "orpheus": ("orpheus", write_orpheus, ()),
    "neutts": ("neutts", write_neutts, ()),
    "deaf neutts": ("neutts", write_deaf_neutts, ("--silence", "5")),
}
EXPORTED = ("orpheus", "neutts")
"""Decoded by ONNX Runtime, and by OpenVINO, which leaves recordings to ONNX Runtime; the others by torch."""
NAMED, HEARING = ("llasa", "orpheus", "deaf neutts"), ("llasa", "orpheus", "neutts")
GREEDY: dict[str, ParameterValue] = {"temperature": 0.0, "repetition_penalty": 1.0, "drafter": "none"}
SAMPLED: dict[str, ParameterValue] = {"seed": 3, "max_seconds": SECONDS}
SETTINGS: tuple[dict[str, ParameterValue], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.0, "top_k": 0},
    {"temperature": 1.0, "repetition_penalty": 1.3},
    {"temperature": 1.0, "ras_win_len": 10, "ras_win_max_num_repeat": 1},
)

DRAFTED = {"llasa": {"drafter": "mtp", "pin_draft": True}}


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Imported]]:
    """Each served when it is first asked for, until the end."""
    running: dict[str, Imported] = {}
    with ExitStack() as stack:

        def open_house(name: str) -> Imported:
            if name not in running:
                family, write, options = MADE[name]
                folder = tmp_path_factory.mktemp(family)
                made = imported(family, write, folder, *options, is_exported=name in EXPORTED)
                running[name] = stack.enter_context(made)
            return running[name]

        yield open_house


def recording(house: Imported, seconds: float = SECONDS) -> Reference:
    """Something at the family's rate."""
    noise = np.random.default_rng(0).standard_normal(int(seconds * house.speech.sample_rate_hz))
    return Reference((0.1 * noise).clip(-0.9, 0.9).astype(np.float32), SAID)


def voiced(house: Imported) -> dict[str, Any]:
    """What speaks where there may be no named voice."""
    return {} if house.client.voices() else {"reference": recording(house)}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("penalty", [1.0, 1.1])
def test_a_named_voice_says_what_transformers_draws(
    name: str, penalty: float, houses: Callable[[str], Imported]
) -> None:
    check_greedy(houses(name), repetition_penalty=penalty)


@pytest.mark.parametrize("name", HEARING)
def test_a_recording_is_gone_on_with_as_transformers_does(
    name: str, houses: Callable[[str], Imported]
) -> None:
    check_greedy(house := houses(name), reference=recording(house))


def check_greedy(house: Imported, **like: Any) -> None:  # noqa: ANN401
    """Tokens and audio of some texts, some of which are spoken in several chunks."""
    spoken = []
    for text in TEXTS:
        frames = house.greedy_frames(text, SECONDS, **like)
        heard = house.speak(text, **{**GREEDY, **like, "max_seconds": SECONDS})
        assert heard.stats.frames == len(frames)
        assert difference(heard.audio, house.cut_alike(frames, heard, like.get("reference"))) < SAME_FRAMES
        if isinstance(house.codec, SnacCodec):
            whole = house.codec.samples(torch.from_numpy(frames.astype(np.int64))[None], [0])[0].numpy()
            assert difference(heard.audio, whole.clip(-1, 1)) < SAME_FRAMES
        others = house.cut_alike((frames + 1) % house.speech.codebooks[0], heard, like.get("reference"))
        assert difference(heard.audio, others) > 100 * SAME_FRAMES
        spoken.append(heard)
    assert max(len(heard.chunks) for heard in spoken) > 2
    assert len({heard.audio.tobytes() for heard in spoken}) == len(TEXTS)


def test_families_speak_side_by_side(houses: Callable[[str], Imported]) -> None:
    """Each by a server of its own, on one machine, and as it speaks alone."""
    asked = [(houses(name), text) for text in TEXTS for name in ("llasa", "orpheus")]
    alone = [house.speak(text, **SAMPLED) for house, text in asked]
    with ThreadPoolExecutor(len(asked)) as pool:
        together = list(pool.map(lambda one: one[0].speak(one[1], **SAMPLED), asked))
    for one, other in zip(alone, together, strict=True):
        assert difference(one.audio, other.audio) < SAME_FRAMES


@pytest.mark.parametrize("drafter", ["mtp", "heads"])
def test_drafts_that_came_with_the_talker_say_what_plain_decoding_says(
    drafter: str, houses: Callable[[str], Imported]
) -> None:
    house = houses("llasa")
    for settings in SETTINGS:
        plain = house.speak(TEXTS[0], **SAMPLED, **settings, drafter="none")
        drafted = house.speak(
            TEXTS[0], **SAMPLED, **settings, drafter=drafter, verifier="match", pin_draft=True
        )
        assert difference(plain.audio, drafted.audio) < SAME_FRAMES, settings
        assert drafted.stats.accepted > 0 == plain.stats.accepted
        assert drafted.stats.target_steps < plain.stats.target_steps
        assert drafted.stats.pair == f"{drafter}+match"


@pytest.mark.parametrize("name", NAMED)
def test_settings_change_what_is_said(name: str, houses: Callable[[str], Imported]) -> None:
    house = houses(name)
    said = {
        b"".join(house.speak(text, **SAMPLED, **settings, **voiced(house)).audio.tobytes() for text in TEXTS)
        for settings in SETTINGS
    }
    assert len(said) == len(SETTINGS)


@pytest.mark.parametrize("name", MADE)
def test_each_of_eight_streams_speaks_as_alone(name: str, houses: Callable[[str], Imported]) -> None:
    house = houses(name)

    def spoken(number: int) -> Audio:
        asked = {**SAMPLED, **SETTINGS[number % len(SETTINGS)], **voiced(house), **DRAFTED.get(name, {})}
        return house.speak(TEXTS[number % len(TEXTS)], **{**asked, "seed": number}).audio

    alone = [spoken(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(spoken, range(8)))
    assert [difference(*pair) < SAME_FRAMES for pair in zip(alone, together, strict=True)] == [True] * 8


@pytest.mark.parametrize("name", MADE)
def test_a_long_text_is_spoken_to_its_end(name: str, houses: Callable[[str], Imported]) -> None:
    house, text = houses(name), prose(600)
    heard = house.speak(text, seed=5, **voiced(house))
    assert heard.stats.char_end == len(text)
    assert len({chunk.stats.char_end for chunk in heard.chunks}) > 2, "it is one segment"
    again = house.speak(text, seed=5, **voiced(house))
    assert difference(heard.audio, again.audio) < SAME_FRAMES


@pytest.mark.parametrize("name", MADE)
def test_a_stream_that_is_left_frees_its_place(name: str, houses: Callable[[str], Imported]) -> None:
    house = houses(name)
    with house.client.speak(prose(2_000), **voiced(house)) as speech:
        next(speech)
    eventually(lambda: house.client.load().details["open_streams"], lambda streams: streams == 0)
    house.speak(TEXTS[0], **SAMPLED, **voiced(house))


@pytest.mark.parametrize(
    ("name", "asked", "sentence"),
    [
        ("llasa", {"text": "One <|s_3|> two."}, r"TEXT: '<\|s_3\|>' is not accepted; .*without tokens"),
        ("llasa", {"voice": "tara"}, "VOICE: 'tara' is not accepted; allowed: default"),
        ("llasa", {"drafter": "draft_lm"}, "allowed: none, heads, mtp"),
        ("llasa", {"drafter": "mtp", "draft_length": 3}, "a whole number from 1 to 2 with drafter mtp"),
        ("orpheus", {"voice": "default"}, "allowed: tara, leah, jess, leo, dan, mia, zac, zoe"),
        ("orpheus", {"drafter": "heads"}, "allowed: none"),
        ("orpheus", {"seconds": 13.0}, "at most 615 positions together: 82.0312 for a second of speech"),
        ("neutts", {}, "VOICE: .* is not accepted; allowed: none: send REFERENCE_AUDIO instead"),
        ("neutts", {"seconds": 0.5}, "at least 1 s of speech at 24,000 Hz"),
        ("deaf neutts", {"seconds": 1.5}, "none: this server has voices of its own alone"),
    ],
)
def test_refusals_name_what_is_allowed_and_disturb_nobody(
    name: str, asked: dict[str, Any], sentence: str, houses: Callable[[str], Imported]
) -> None:
    house = houses(name)
    text, seconds, options = asked.get("text", TEXTS[1]), asked.get("seconds"), dict(asked)
    options.pop("text", None), options.pop("seconds", None)
    if seconds:
        options["reference"] = recording(house, seconds)
    neighbour = {"text": TEXTS[0], **SAMPLED, **voiced(house)}
    alone = house.speak(**neighbour)
    with house.client.speak(**neighbour) as beside:
        with pytest.raises(InvalidRequest, match=sentence):
            house.speak(text, **options)
        assert difference(house.hear(beside).audio, alone.audio) < SAME_FRAMES
