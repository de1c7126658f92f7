"""Phrases cut out of the teacher's audio are missed, doubled ones are heard twice, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from instruments.language_model import words_of
from instruments.measures.frames import Audio
from instruments.measures.phrases import Phrases, align, check_phrases, compare, confirmed
from instruments.recogniser import HeardWord, Recogniser
from instruments.teacher import VOICES, Teacher

TEXTS = (
    "the juice of lemons makes fine punch.",
    "she told me that the train would be late, and it was.",
    "please call extension five four two before the end of may.",
    "would you like to have some more of the soup?",
)
WHOLE = Phrases((), ())


def test_a_phrase_counts_only_where_the_hearing_misses_it_too() -> None:
    asked = words_of("she was the namer of a boat and of a ship")
    skipped, repeated = Phrases(("a boat",), ()), Phrases((), ("a ship",))
    assert confirmed(skipped, asked, asked) == WHOLE
    assert confirmed(skipped, asked, words_of("she was the namer of about and of a ship")) == WHOLE
    assert confirmed(skipped, asked, words_of("she was the namer of and of a ship")) == skipped
    assert confirmed(repeated, asked, asked) == WHOLE
    assert confirmed(repeated, asked, [*asked, "a", "ship"]) == repeated


@pytest.fixture(scope="module")
def recogniser() -> Recogniser:
    return Recogniser(TEXTS)


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    return Teacher()


def test_a_phrase_is_two_words_or_more() -> None:
    asked = ["a", "b", "c", "d", "e", "f"]
    assert compare(asked, asked) == WHOLE
    assert compare(asked, ["a", "b", "d", "e", "f"]) == WHOLE
    assert compare(asked, ["a", "b", "c", "c", "d", "e", "f"]) == WHOLE
    assert compare(asked, ["a", "d", "e", "f"]) == Phrases(("b c",), ())
    assert compare(asked, ["a", "b", "c", "d", "b", "c", "d", "e", "f"]) == Phrases((), ("b c d",))
    assert compare(asked, ["a", "b", "c", "d", "f", "b", "c", "d", "e", "f"]) == Phrases((), ("b c d",))
    # Words from here and there are no phrase.
    assert compare(asked, ["a", "b", "c", "d", "f", "b", "e", "f"]) == WHOLE
    assert compare(asked, []) == Phrases(("a b c d e f",), ())
    # What was said in place of a phrase does not stand for it.
    assert compare(asked, ["a", "b", "f", "f"]).skipped == ("c d e",)
    assert compare(asked, ["a", "x", "d", "e", "f"]).skipped == ("b c",)


def checked(recogniser: Recogniser, text: str, audio: Audio) -> Phrases:
    return check_phrases(recogniser, text, audio, recogniser.hear(audio))


def spoken(recogniser: Recogniser, teacher: Teacher) -> Iterator[tuple[str, Audio, list[HeardWord]]]:
    for place, text in enumerate(TEXTS):
        audio = teacher.speak(text, VOICES[place]).audio
        yield text, audio, align(recogniser, text, audio)


@pytest.mark.needs("flite")
def test_alignment_finds_every_word_in_order(recogniser: Recogniser, teacher: Teacher) -> None:
    for text, audio, words in spoken(recogniser, teacher):
        assert [word.word for word in words] == words_of(text)
        edges = [edge for word in words for edge in (word.start, word.stop)]
        assert edges == sorted(edges)
        assert 0 <= edges[0] < 2_000 and len(audio) - 4_000 < edges[-1] <= len(audio)


@pytest.mark.needs("flite")
def test_what_was_cut_out_or_doubled_is_found(recogniser: Recogniser, teacher: Teacher) -> None:
    for text, audio, words in spoken(recogniser, teacher):
        start, stop = words[2].start, words[4].stop
        phrase = " ".join(word.word for word in words[2:5])
        assert checked(recogniser, text, audio) == WHOLE
        without = checked(recogniser, text, np.concatenate([audio[:start], audio[stop:]]))
        # Where the cut leaves half a word, its neighbour may be missed as well.
        assert len(without.skipped) == 1 and phrase in without.skipped[0]
        doubled = checked(recogniser, text, np.concatenate([audio[:stop], audio[start:]]))
        assert doubled.repeated == (phrase,)
        assert without.repeated == doubled.skipped == ()


@pytest.mark.needs("flite")
def test_speech_that_ends_early_or_is_missing_is_skipped(recogniser: Recogniser, teacher: Teacher) -> None:
    text, audio, words = next(spoken(recogniser, teacher))
    assert checked(recogniser, text, audio[: words[3].stop]).skipped == ("makes fine punch",)
    assert checked(recogniser, text, np.zeros(16_000, dtype=np.int16)).skipped != ()
