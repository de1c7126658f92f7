"""What a recogniser may expect: the bigrams of the evaluation texts."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

_DISCOUNT = 0.6


def words_of(text: str) -> list[str]:
    """Words of a normalised text, without punctuation."""
    return re.findall(r"[a-z']+", text.lower())


def bigram_model(sentences: Sequence[Sequence[str]]) -> str:
    """A bigram model with absolute discounting, in ARPA format."""
    padded = [["<s>", *sentence, "</s>"] for sentence in sentences]
    unigrams = Counter(word for sentence in padded for word in sentence)
    bigrams = Counter(pair for sentence in padded for pair in pairwise(sentence))
    followers = Counter(first for first, _ in bigrams)
    begun = Counter(first for sentence in padded for first in sentence[:-1])
    total = sum(unigrams.values())
    lines = ["\\data\\", f"ngram 1={len(unigrams)}", f"ngram 2={len(bigrams)}", "", "\\1-grams:"]
    for word, count in sorted(unigrams.items()):
        backoff = _DISCOUNT * followers[word] / begun[word] if begun[word] else 1.0
        lines.append(f"{math.log10(count / total):.5f} {word} {math.log10(backoff):.5f}")
    lines += ["", "\\2-grams:"]
    for (first, second), count in sorted(bigrams.items()):
        share = (count - _DISCOUNT) / begun[first] + _DISCOUNT * followers[first] / begun[first] * unigrams[
            second
        ] / total
        lines.append(f"{math.log10(share):.5f} {first} {second}")
    return "\n".join([*lines, "", "\\end\\", ""])
