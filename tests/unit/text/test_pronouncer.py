"""Phonemes: known and unknown words, homographs, neighbours."""

from __future__ import annotations

import pytest
from talkahead.text import SYMBOLS, TextFrontend
from talkahead.text.lexicon import Lexicon
from talkahead.text.recent_words import RECENT_WORDS
from talkahead.text.symbols import NUM_SYMBOLS, PADDING, SYMBOL_IDS

SAID = {
    "The juice.": "DH AH0 JH UW1 S .",
    "The apple?": "DH IY0 AE1 P AH0 L ?",
    "I read it.": "AY1 R EH1 D IH1 T .",
    "To read it.": "T AH0 R IY1 D IH1 T .",
    "I record a record.": "AY1 R AH0 K AO1 R D AH0 R EH1 K ER0 D .",
    "Use the use.": "Y UW1 Z DH AH0 Y UW1 S .",
    "They live here.": "DH EY1 L IH1 V HH IH1 R .",
    "Live music.": "L AY1 V M Y UW1 Z IH0 K .",
    "Smith's dogs' box's.": "S M IH1 TH S D AA1 G Z B AA1 K S AH0 Z .",
    "A B!": "EY1 B IY1 !",
}


@pytest.mark.parametrize(("text", "phonemes"), SAID.items())
def test_words_are_said_as_the_sentence_asks(frontend: TextFrontend, text: str, phonemes: str) -> None:
    [segment] = frontend.segments(text)
    assert " ".join(SYMBOLS[index] for index in segment.symbols[:, 0]) == phonemes


@pytest.mark.parametrize("word", ["smurfenstein", "blorptastic", "xqz", "hmmmm", "zyzzyva", "brr"])
def test_unknown_words_are_said_somehow(frontend: TextFrontend, word: str) -> None:
    [segment] = frontend.segments(word)
    assert len(segment.symbols) >= 2


def test_recent_words_are_new_and_in_the_inventory() -> None:
    lexicon = Lexicon()
    for word, phonemes in RECENT_WORDS.items():
        assert lexicon.pronounce(word) == tuple(phonemes.split())
        assert all(phoneme in SYMBOL_IDS for phoneme in phonemes.split())


def test_the_inventory_is_what_trained_weights_expect() -> None:
    assert NUM_SYMBOLS == 80 and len(set(SYMBOLS)) == NUM_SYMBOLS
    assert SYMBOLS[0] == PADDING and SYMBOLS[1:5] == (",", ".", "?", "!")
    assert (SYMBOL_IDS["B"], SYMBOL_IDS["ZH"], SYMBOL_IDS["AA0"], SYMBOL_IDS["UW2"]) == (9, 32, 33, 77)
