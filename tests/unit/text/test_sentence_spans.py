"""A text as it is written, sentence by sentence."""

from __future__ import annotations

from itertools import pairwise

import pytest
from talkahead.text.lexicon import Lexicon
from talkahead.text.normalizer import Normalizer
from talkahead.text.sentence_spans import sentence_spans


@pytest.fixture(scope="module")
def normalizer() -> Normalizer:
    return Normalizer(Lexicon())


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith paid $3.50. He left!", ["Dr. Smith paid $3.50.", "He left!"]),
        ('He said: "Go." Then he went.', ['He said: "Go."', "Then he went."]),
        ("Really (really!). Yes", ["Really (really!).", "Yes"]),
        ("  One...\n\nTwo 🙂 ", ["One...", "Two 🙂"]),
        ("— Well? — I see.", ["— Well?", "— I see."]),
        ("你好，世界。今天天气很好！我们走吧", ["你好，世界。", "今天天气很好！", "我们走吧"]),
        ("Привет, мир! Как дела?", ["Привет, мир!", "Как дела?"]),
        ("no full stop", ["no full stop"]),
        ("!!! ??? Hello. ...", ["!!! ??? Hello. ..."]),
    ],
)
def test_spans_cover_the_text(text: str, sentences: list[str], normalizer: Normalizer) -> None:
    spans = list(sentence_spans(text, normalizer))
    assert [text[begin:end] for begin, end in spans] == sentences
    between = [text[end:begin] for (_, end), (begin, _) in pairwise(spans)]
    assert not "".join(between).strip()
