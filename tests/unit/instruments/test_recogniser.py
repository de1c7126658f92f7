"""The language model is a distribution, and word errors are edits."""

from __future__ import annotations

import math

import pytest

from instruments.language_model import bigram_model, words_of
from instruments.recogniser import Recogniser
from instruments.teacher import Teacher


def read(model: str) -> tuple[dict[str, tuple[float, float]], dict[tuple[str, str], float]]:
    unigrams, bigrams = {}, {}
    for line in model.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[0].startswith("-") and parts[2].lstrip("-").replace(".", "").isdigit():
            unigrams[parts[1]] = (10 ** float(parts[0]), 10 ** float(parts[2]))
        elif len(parts) == 3 and parts[0].startswith("-"):
            bigrams[parts[1], parts[2]] = 10 ** float(parts[0])
    return unigrams, bigrams


def test_probabilities_of_followers_sum_to_one() -> None:
    sentences = [["a", "dog", "barks"], ["a", "cat", "sleeps"], ["a", "dog", "sleeps"]]
    unigrams, bigrams = read(bigram_model(sentences))
    total = sum(probability for probability, _ in unigrams.values())
    assert math.isclose(total, 1.0, abs_tol=1e-3)
    for first in ("<s>", "a", "dog"):
        seen = {second: probability for (one, second), probability in bigrams.items() if one == first}
        unseen = sum(probability for word, (probability, _) in unigrams.items() if word not in seen)
        assert math.isclose(sum(seen.values()) + unigrams[first][1] * unseen, 1.0, abs_tol=2e-3)


def test_words_have_no_punctuation() -> None:
    assert words_of("it's ten o'clock, isn't it?") == ["it's", "ten", "o'clock", "isn't", "it"]


@pytest.mark.needs("flite")
def test_the_teachers_way_of_saying_a_rare_name_counts_as_right() -> None:
    text, teacher = "we visited lyallpur and nanjing last summer.", Teacher()
    audio = teacher.speak(text, "slt").audio
    assert Recogniser([text], teacher).errors(text, audio).edits == 0
