"""Every symbol of ours has letters that the neural teacher knows, and each letter knows its symbol."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import hibari
import pytest
from talkahead.text import TextFrontend
from talkahead.text.prosody import SpokenWord
from talkahead.text.symbols import CONSONANTS, PAUSES, STRESSES, SYMBOL_IDS, VOWELS

from instruments.teacher_phonemes import Phonemes, phonemes

FRONTEND = TextFrontend()
KNOWN = json.loads((Path(hibari.__file__).parent / "assets" / "vocab.json").read_text(encoding="utf-8"))


def said(text: str) -> Phonemes:
    (segment,) = FRONTEND.segments(text)
    return phonemes(segment.spoken)


def word(*names: str) -> SpokenWord:
    return SpokenWord("-", tuple(SYMBOL_IDS[name] for name in names), False)


@pytest.mark.parametrize("name", [*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in STRESSES)])
def test_every_phoneme_is_one_that_the_teacher_knows(name: str) -> None:
    found = phonemes([word("P", name, "P")])
    assert found.owners.count(1) == len(found.text) - 2 >= 1
    assert set(found.text) <= set(KNOWN)


@pytest.mark.parametrize("name", PAUSES)
def test_every_pause_is_one_that_the_teacher_knows(name: str) -> None:
    found = phonemes([word("P"), SpokenWord(name, (SYMBOL_IDS[name],), True)])
    assert (found.text[0], found.owners) == ("p", (0, 1))
    assert found.text[1] in KNOWN


def test_no_two_phonemes_sound_alike() -> None:
    names = [*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in STRESSES)]
    assert len({phonemes([word("P", name, "P")]).text for name in names}) == len(names)


@pytest.mark.parametrize(
    "text, letters",
    [
        ("The juice of lemons.", "ðə ʤˈus ʌv lˈɛmənz."),
        ("Little water bottles, better buttons!", "lˈɪTᵊl wˈɔTəɹ bˈɑTᵊlz, bˈɛTəɹ bˈʌTənz!"),
        ("Is it for us?", "ɪz ɪt fɔɹ ˌʌs?"),
        ("Four fires burn.", "fˈɔɹ fˈIəɹz bˈɜɹn."),
    ],
)
def test_words_are_written_as_the_teacher_learned_them(text: str, letters: str) -> None:
    assert said(text).text == letters


def test_letters_belong_to_symbols_in_their_order() -> None:
    text = "She said, the particularly idiosyncratic mountain climber was late; wasn't he?"
    found = said(text)
    (segment,) = FRONTEND.segments(text)
    assert len(found.owners) == len(found.text)
    assert all(one <= other <= one + 1 for one, other in pairwise(found.owners))
    assert (found.owners[0], found.owners[-1]) == (0, len(segment.symbols) - 1)
