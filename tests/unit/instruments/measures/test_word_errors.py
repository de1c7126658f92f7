"""Text as it was asked for and as it was heard are compared alike; word errors are edits."""

from __future__ import annotations

import pytest

from instruments.measures.word_errors import WordErrors, word_error_percent, words_of


def test_words_have_no_punctuation() -> None:
    assert words_of("It's ‘ten’ words, isn't it?") == ["it's", "10", "words", "isn't", "it"]
    assert words_of("the dogs' bone - here.") == ["the", "dogs", "bone", "here"]


@pytest.mark.parametrize(
    ("asked", "heard"),
    [
        ("call five four two.", "Call 5-4-2."),
        ("call five four two.", "Call 542."),
        ("five hundred and forty two", "542"),
        ("one million two hundred thousand people", "1,200,000 people"),
        ("at seven thirty", "At 7:30."),
        ("at ten o'clock", "At 10 o'clock!"),
        ("in nineteen ninety nine", "In 1999,"),
        ("the twenty first of may", "the 21st of May"),
        ("it costs five dollars and fifty cents", "It costs $5.50."),
        ("ten percent of three point five", "10% of 3.5"),
        ("mister smith and doctor who", "Mr. Smith and Dr. Who"),
        ("two kilograms and nine centimeters wide", "2 kg and 9 cm wide."),
        ("a grey stockyard", "A gray stockyard."),
    ],
)
def test_numbers_titles_units_and_colours_are_the_same_however_they_are_written(
    asked: str, heard: str
) -> None:
    assert words_of(asked) == words_of(heard)
    assert WordErrors.between(asked, heard).edits == 0


def test_other_numbers_differ() -> None:
    assert WordErrors.between("call five four two", "Call 543.").edits == 1


def test_edits_of_all_utterances_over_all_words() -> None:
    missed = WordErrors.between("it was late and we went home", "it was, and we went!")
    assert (missed.edits, missed.words) == (2, 7)
    assert WordErrors.between("we went", "").edits == 2
    assert word_error_percent([missed, WordErrors.between("so it was", "so it was")]) == pytest.approx(20)
