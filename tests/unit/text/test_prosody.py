"""Prosody levels: what belongs together, and how phrases end."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead.text import TextFrontend
from talkahead.text.prosody import RuleProsody, SpokenWord

PAUSES = frozenset(",.?!")


def units(sentence: str, column: int) -> list[str]:
    """The words of each unit of a prosody column, as one letter per word makes them easy to read back."""
    words = [SpokenWord(text, (1,), text in PAUSES) for text in sentence.split()]
    levels = RuleProsody().predict(words)[:, column]
    found: list[str] = []
    for word, level in zip(words, levels, strict=True):
        if word.is_pause:
            continue
        if level in (1, 3):
            found.append(word.text)
        else:
            found[-1] += f" {word.text}"
    return found


def test_function_words_lean_on_the_content_word_after_them() -> None:
    assert units("the juice of lemons makes fine punch .", 0) == [
        "the juice",
        "of lemons",
        "makes",
        "fine",
        "punch",
    ]


def test_object_pronouns_lean_back() -> None:
    assert units("he gave it to the boy .", 0) == ["he gave it", "to the boy"]


def test_phrases_run_from_function_words_to_content_words() -> None:
    sentence = "the juice of lemons makes fine punch , and the boy drank it ."
    assert units(sentence, 1) == ["the juice", "of lemons makes fine punch", "and the boy drank it"]


def test_prosodic_words_nest_in_phrases_and_phrases_in_intonational_phrases(frontend: TextFrontend) -> None:
    [segment] = frontend.segments("If it rains, the boys of the village play in the old barn, don't they?")
    word, phrase, intonation = segment.symbols[:, 1], segment.symbols[:, 2], segment.symbols[:, 3]
    assert np.all(np.isin(word[np.isin(phrase, (1, 3))], (1, 3)))
    assert np.all(np.isin(phrase[intonation == 1], (1, 3)))
    assert np.count_nonzero(np.isin(word, (1, 3))) == np.count_nonzero(np.isin(word, (2, 3)))


@pytest.mark.parametrize(
    ("text", "ends"), [("Yes.", [2]), ("Yes?", [3]), ("Yes!", [4]), ("Yes, no: oh; well", [5, 5, 5, 2])]
)
def test_intonational_phrases_end_with_their_pause(
    frontend: TextFrontend, text: str, ends: list[int]
) -> None:
    [segment] = frontend.segments(text)
    assert [level for level in segment.symbols[:, 3].tolist() if level > 1] == ends
