"""Text to speak: WordNet's examples and definitions, sentences made from patterns, words in random order.

Splits are decided by a hash of the text alone, or of the pattern that made it, so they never change, whatever
else is added.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from instruments.patterns import made_up, pattern_of
from instruments.wordnet import glosses

SORTS = ("prose", "usage", "conversation", "numbers", "replies", "spelling")
SPLITS = ("train", "development", "calibration", "test")
_HELD_OUT_PERCENT, _HELD_OUT_PATTERNS_PERCENT = 2, 4
_SINGLE_WORDS, _BRIEF = 3_000, 4
_EXAMPLE = re.compile(r'"([^"]+)"')
_DIGIT = re.compile(r"\d")


def split_of(text: str) -> str:
    """The split a text belongs to: 2 % each for development, calibration and test.

    Of the patterns, 4 % belong to each of these with all that is made from them: otherwise a held-out
    sentence would differ from those learned by a name alone.
    """
    pattern = pattern_of(text)
    of_pattern = _split(pattern, _HELD_OUT_PATTERNS_PERCENT) if pattern else SPLITS[0]
    return _split(text, _HELD_OUT_PERCENT) if of_pattern == SPLITS[0] else of_pattern


def _split(text: str, held_out_percent: int) -> str:
    bucket = int.from_bytes(hashlib.sha256(text.lower().encode()).digest()[:4], "big") % 100
    held_out = bucket // held_out_percent
    return SPLITS[1 + held_out] if held_out < len(SPLITS) - 1 else SPLITS[0]


def _sentence(text: str) -> str:
    text = " ".join(text.split()).strip(" ;,:-")
    return text if not text or text[-1] in ".?!" else f"{text}."


def examples() -> Iterator[str]:
    """Usage examples: 48,000 phrases and sentences."""
    for gloss in glosses():
        for example in _EXAMPLE.findall(gloss):
            yield _sentence(example)


def definitions() -> Iterator[str]:
    """Definitions without their examples: 117,000 noun phrases and clauses."""
    for gloss in glosses():
        yield _sentence(re.sub(r"\([^)]*\)", "", gloss.split('; "')[0].split(': "')[0]).split(";")[0])


def word_salads(count: int, seed: int = 11) -> Iterator[str]:
    """Dictionary words in random order: pronunciation without the help of context."""
    draw = random.Random(seed)
    words = [word for word in _words() if len(word) > 2]
    for _ in range(count):
        yield " ".join(draw.choice(words) for _ in range(draw.randint(4, 12))) + draw.choice(
            (".", ".", ".", "?", "!")
        )


@cache
def _words() -> list[str]:
    """Those of the usage examples."""
    return sorted({word for text in examples() for word in re.findall(r"[a-z]+", text.lower())})


def prose(seed: int = 3) -> list[str]:
    """WordNet's texts without digits and words in random order, each once, shuffled: about 180,000."""
    return _shuffled((text for text in _written() if not _DIGIT.search(text)), seed)


def usage(seed: int = 3) -> list[str]:
    """WordNet's usage examples without digits, each once, shuffled: about 48,000, half under 6 words."""
    return _shuffled((text for text in examples() if not _DIGIT.search(text)), seed)


def numbers(seed: int = 3) -> list[str]:
    """Texts with digits, each once, shuffled: about 14,000."""
    written = (text for text in _written() if _DIGIT.search(text))
    return _shuffled({*written, *made_up("numbers", 12_000, seed)}, seed)


def conversation(seed: int = 3) -> list[str]:
    """Dialogue, and sentences full of names, each once, shuffled: about 24,000."""
    return _shuffled({*made_up("dialogue", 18_000, seed), *made_up("names", 6_000, seed)}, seed)


def replies(seed: int = 3) -> list[str]:
    """What is said in a word or two, or in a letter, each once, shuffled: about 6,500, a third of up to four
    letters."""
    draw = random.Random(seed)
    brief = [word for word in _words() if len(word) <= _BRIEF]
    words = [
        *string.ascii_uppercase,
        *draw.choices(_words(), k=_SINGLE_WORDS),
        *draw.choices(brief, k=_SINGLE_WORDS),
    ]
    single = (word[0].upper() + word[1:] + draw.choice(("", ".", ".", "!", "?")) for word in words)
    return _shuffled({*made_up("replies", 3_000, seed), *single}, seed)


def spelling(seed: int = 3) -> list[str]:
    """Letters and digits one by one, and initials, each once, shuffled: about 6,000."""
    return _shuffled(made_up("spelling", 6_000, seed), seed)


def assorted(split: str, count: int, seed: int = 3, sorts: Sequence[str] = SORTS) -> list[str]:
    """`count` texts of some sorts and of one split, each once, shuffled.

    What is made from patterns never ends: a talker that goes on with definitions alone, once the rest is
    used up, unlearns how people speak.
    """
    endless = (conversation, numbers, replies, spelling)
    sources: dict[str, Iterable[str]] = {made.__name__: _ever_new(made, seed) for made in endless}
    sources |= {"prose": prose(seed), "usage": usage(seed)}
    taken: dict[str, None] = {}
    for texts in itertools.zip_longest(*(sources[sort] for sort in sorts)):
        taken.update((text, None) for text in texts if text and split_of(text) == split)
        if len(taken) >= count:
            break
    return list(taken)[:count]


def _ever_new(made: Callable[[int], list[str]], seed: int) -> Iterator[str]:
    """The texts of a seed, then those of the next one, and so on."""
    return itertools.chain.from_iterable(made(later) for later in itertools.count(seed))


def _written() -> set[str]:
    return {*examples(), *definitions(), *word_salads(20_000)}


def _shuffled(texts: Iterable[str], seed: int) -> list[str]:
    kept = sorted({text for text in texts if text})
    random.Random(seed).shuffle(kept)
    return kept


def categories(split: str, count: int, seed: int = 5) -> dict[str, list[str]]:
    """`count` held-out texts of each category that a report tells apart; no text is in two."""
    plain = [text for text in _shuffled(examples(), seed) if not _DIGIT.search(text)]
    defined = [text for text in _shuffled({*examples(), *definitions()}, seed) if not _DIGIT.search(text)]
    asked = [*plain, *_shuffled(made_up("dialogue", 18_000, seed=3), seed)]

    def has_words(low: int, high: int) -> Callable[[str], bool]:
        return lambda text: low <= len(text.split()) <= high and not text.endswith("?")

    sources: dict[str, tuple[list[str], Callable[[str], bool]]] = {
        "short": (plain, has_words(3, 5)),
        "medium": (plain, has_words(6, 10)),
        "long": (defined, has_words(11, 30)),
        "numbers": (numbers(), lambda text: True),
        "questions": (asked, lambda text: text.endswith("?") and len(text.split()) >= 3),
        "names": (_shuffled(made_up("names", 6_000, seed=3), seed), lambda text: True),
        "replies": (replies(), lambda text: True),
        "spelling": (spelling(), lambda text: True),
    }
    chosen: dict[str, list[str]] = {}
    taken: set[str] = set()
    for name, (texts, fits) in sources.items():
        found = [text for text in texts if split_of(text) == split and fits(text) and text not in taken]
        chosen[name] = found[:count]
        taken.update(chosen[name])
    return chosen
