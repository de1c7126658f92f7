"""What is spoken to judge a voice: held-out sentences of every category, and paragraphs made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from talkahead.errors import BadRequest
from talkahead.text import TextFrontend
from talkahead.text.frontend import TextSegment

from instruments.sentences import categories

_SPARE = 2
"""Texts looked at for each one wanted: some are more than a sentence, or not English."""


@dataclass(frozen=True)
class Sentence:
    """A held-out sentence as written, as spoken, and the voice that speaks it."""

    text: str
    words: str
    voice: str
    category: str


@dataclass(frozen=True)
class Paragraph:
    """Several sentences as one text, its segments, and the voice that speaks them."""

    text: str
    segments: tuple[TextSegment, ...]
    voice: str


def held_out_sentences(split: str, per_category: int, voices: Sequence[str], seed: int) -> list[Sentence]:
    """`per_category` texts of one sentence from each category; voices in turn.

    Raises:
        ValueError: a category has too few held-out texts.
    """
    frontend = TextFrontend()
    chosen: list[Sentence] = []
    for shift, (category, texts) in enumerate(categories(split, _SPARE * per_category, seed).items()):
        found = list(_single(frontend, texts))[:per_category]
        if len(found) < per_category:
            allowed = f"1 to {len(found)} ({category}, {split})"
            raise ValueError(f"per_category: {per_category}, allowed: {allowed}")
        for place, (text, words) in enumerate(found):
            chosen.append(Sentence(text, words, voices[(place + shift) % len(voices)], category))
    return chosen


def _single(frontend: TextFrontend, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each text that is one segment, and its words."""
    for text in texts:
        try:
            segments = frontend.segments(text)
        except BadRequest:  # WordNet has formulae and foreign scripts
            continue
        if len(segments) == 1:
            yield text, segments[0].words


def paragraphs(sentences: Sequence[Sentence], count: int, voices: Sequence[str]) -> list[Paragraph]:
    """Texts of one sentence from each category, with a blank line in the middle."""
    frontend = TextFrontend()
    by_category: Mapping[str, list[str]] = {sentence.category: [] for sentence in sentences}
    for sentence in sentences:
        by_category[sentence.category].append(sentence.text)
    made = []
    for place, texts in enumerate(list(zip(*by_category.values(), strict=True))[:count]):
        middle = len(texts) // 2
        text = " ".join(texts[:middle]) + "\n\n" + " ".join(texts[middle:])
        made.append(Paragraph(text, tuple(frontend.segments(text)), voices[place % len(voices)]))
    return made
