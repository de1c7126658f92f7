"""Systems side by side: a copy in noise is worse than what it copies."""

from __future__ import annotations

import pytest
from taught import CLEAR, NUMBERS, noisy, said

from instruments.listening import ListeningTest, table


def test_differences_to_the_first_system() -> None:
    texts = [CLEAR, NUMBERS]
    clear = [said(text) for text in texts]
    found = list(ListeningTest(texts).compare({"teacher": clear, "copy": [noisy(one, 2.0) for one in clear]}))
    teacher, copy = found
    assert (teacher.word_errors_percent, teacher.more_word_errors.value, teacher.more_p808.high) == (0, 0, 0)
    assert copy.word_errors_percent > 10
    assert copy.more_word_errors.value == pytest.approx(copy.word_errors_percent)
    assert copy.more_p808.high < -0.5
    assert copy.more_p808.value == pytest.approx(copy.p808 - teacher.p808)
    assert copy.seconds == teacher.seconds == pytest.approx(sum(one.seconds for one in clear))
    assert [line.split()[0] for line in table(found).splitlines()] == ["system", "teacher", "copy"]


def test_every_system_says_every_text() -> None:
    with pytest.raises(ValueError, match="shorter"):
        list(ListeningTest([CLEAR]).compare({"mute": []}))
