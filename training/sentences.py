"""Text to speak: WordNet's examples and glosses (Debian `wordnet-base`), and sentences made from patterns.

Splits are decided by a hash of the text alone, so they never change, whatever else is added.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path

WORDNET = Path("/usr/share/wordnet")
SPLITS = ("train", "development", "calibration", "test")
_HELD_OUT_PERCENT = 2
_EXAMPLE = re.compile(r'"([^"]+)"')
_PARTS = ("noun", "verb", "adj", "adv")


def split_of(text: str) -> str:
    """The split a text belongs to: 2 % each for development, calibration and test."""
    bucket = int.from_bytes(hashlib.sha256(text.lower().encode()).digest()[:4], "big") % 100
    held_out = bucket // _HELD_OUT_PERCENT
    return SPLITS[1 + held_out] if held_out < len(SPLITS) - 1 else SPLITS[0]


def _glosses() -> Iterator[str]:
    for part in _PARTS:
        path = WORDNET / f"data.{part}"
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing; get it with: apt-get install wordnet-base")
        for line in path.read_text(encoding="latin-1").splitlines():
            if not line.startswith("  ") and " | " in line:
                yield line.split(" | ", 1)[1].strip()


def _sentence(text: str) -> str:
    text = " ".join(text.split()).strip(" ;,:-")
    return text if not text or text[-1] in ".?!" else f"{text}."


def examples() -> Iterator[str]:
    """Usage examples: 33,000 phrases and sentences."""
    for gloss in _glosses():
        for example in _EXAMPLE.findall(gloss):
            yield _sentence(example)


def definitions() -> Iterator[str]:
    """Definitions without their examples: 117,000 noun phrases and clauses."""
    for gloss in _glosses():
        yield _sentence(re.sub(r"\([^)]*\)", "", gloss.split('; "')[0].split(': "')[0]).split(";")[0])


_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_SUBJECTS = [
    "The meeting",
    "Your order",
    "The train",
    "My flight",
    "The parcel",
    "Her appointment",
    "The concert",
    "The next bus",
]
_PEOPLE = [
    "Mary",
    "John",
    "Susan",
    "Peter",
    "Alice",
    "George",
    "Helen",
    "David",
    "Laura",
    "Frank",
    "Martin",
    "Sarah",
]
_PATTERNS = (
    "{subject} is on {day}, {month} {date}, at {hour}:{minute:02d} {half}.",
    "That will be ${dollars}.{cents:02d}, please.",
    "Call me at 555-{line:04d} before {hour} o'clock.",
    "{person} lives at {house} Oak Street, apartment {small}.",
    "Is {subject_lower} really at {hour}:{minute:02d}?",
    "In {year}, about {percent}% of the {thousand:,} people voted.",
    "Do you want {small} or {small_other} of them, {person}?",
    "The box weighs {small} kg and is {date} cm wide.",
    "{person} came {date}th out of {thousand:,}.",
    "Turn left after {small} miles, then take exit {date}.",
    "What did {person} say to {person_other} on {day}?",
    "Your code is {line:04d}, I repeat, {line:04d}.",
    "It costs {dollars} dollars, or {percent} percent less on {day}.",
    "Hello {person}, how can I help you today?",
    "No, {person}, I'm afraid that is not possible before {month} {date}!",
    "Thank you for calling, {person}. Please hold the line.",
)


def made_up(count: int, seed: int = 7) -> Iterator[str]:
    """Sentences of everyday dialogue with numbers, dates, times, money and names."""
    draw = random.Random(seed)
    for _ in range(count):
        subject = draw.choice(_SUBJECTS)
        yield draw.choice(_PATTERNS).format(
            subject=subject,
            subject_lower=subject[0].lower() + subject[1:],
            person=draw.choice(_PEOPLE),
            person_other=draw.choice(_PEOPLE),
            day=draw.choice(_DAYS),
            month=draw.choice(_MONTHS),
            date=draw.randint(4, 20),
            hour=draw.randint(1, 12),
            minute=draw.randint(0, 59),
            half=draw.choice(("am", "pm")),
            dollars=draw.randint(1, 200),
            cents=draw.randint(1, 99),
            line=draw.randint(0, 9999),
            house=draw.randint(1, 999),
            small=draw.randint(2, 40),
            small_other=draw.randint(2, 40),
            year=draw.randint(1850, 2030),
            percent=draw.randint(1, 99),
            thousand=draw.randint(1_000, 99_999),
        )


def word_salads(count: int, seed: int = 11) -> Iterator[str]:
    """Dictionary words in random order: pronunciation without the help of context."""
    draw = random.Random(seed)
    words = sorted({word for text in examples() for word in re.findall(r"[a-z]{3,}", text.lower())})
    for _ in range(count):
        yield " ".join(draw.choice(words) for _ in range(draw.randint(4, 12))) + draw.choice(
            (".", ".", ".", "?", "!")
        )


def prose(seed: int = 3) -> list[str]:
    """Every text without digits once, in a fixed random order: about 180,000."""
    return _shuffled({*examples(), *definitions(), *word_salads(20_000)}, seed, digits=False)


def numbers(seed: int = 3) -> list[str]:
    """Every text with digits once, in a fixed random order: about 14,000."""
    return _shuffled({*examples(), *definitions(), *made_up(12_000)}, seed, digits=True)


def _shuffled(texts: set[str], seed: int, digits: bool) -> list[str]:
    kept = sorted(text for text in texts if text and bool(re.search(r"\d", text)) == digits)
    random.Random(seed).shuffle(kept)
    return kept
