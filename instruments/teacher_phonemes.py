"""The frontend's symbols in the neural teacher's alphabet, which is that of misaki's American lexicon.

The teacher speaks what is written here and nothing else, so that frontend, teacher and talker agree by
construction: whatever symbols a text becomes, the talker has learned how the teacher says them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from talkahead.text.prosody import SpokenWord
from talkahead.text.symbols import SYMBOLS, VOWELS
from talkahead.text.word_list import FUNCTION_WORDS, OBJECT_PRONOUNS

_CONSONANTS = {
    "B": "b", "CH": "ʧ", "D": "d", "DH": "ð", "F": "f", "G": "ɡ", "HH": "h", "JH": "ʤ", "K": "k", "L": "l",
    "M": "m", "N": "n", "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "V": "v",
    "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
_VOWELS = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "W", "AY": "I", "EH": "ɛ", "ER": "ɜɹ", "EY": "A",
    "IH": "ɪ", "IY": "i", "OW": "O", "OY": "Y", "UH": "ʊ", "UW": "u",
}  # fmt: skip
_WEAK = {"AH0": "ə", "ER0": "əɹ"}
_PAUSES = {",": ",", ".": ".", "?": "?", "!": "!", ";": ";", ":": ":", "-": "—", "...": "…"}
_STRESS = {"0": "", "1": "ˈ", "2": "ˌ"}
_TAP = "T"
"""T between vowels, the second one weak, as in "water"."""
_SYLLABIC = "ᵊ"
"""The vowel of AH0 L after a consonant at the end of a word, as in "little"."""
_GAP = " "
_LIGHT = FUNCTION_WORDS | OBJECT_PRONOUNS
"""Words that have no stress of their own where they have one syllable."""


@dataclass(frozen=True)
class Phonemes:
    """What the teacher is given for a segment.

    Args:
        text: letters of its alphabet.
        owners: of each letter the index of its symbol in the segment; a gap belongs to the symbol before it.
    """

    text: str
    owners: tuple[int, ...]


def phonemes(words: Sequence[SpokenWord]) -> Phonemes:
    """Of the words and pauses of a segment."""
    letters: list[str] = []
    owners: list[int] = []
    first = 0
    for index, word in enumerate(words):
        if letters and not word.is_pause:
            letters.append(_GAP)
            owners.append(first - 1)
        for place, said in enumerate(_word(word, _closes(words, index))):
            letters.append(said)
            owners.extend([first + place] * len(said))
        first += len(word.symbols)
    return Phonemes("".join(letters), tuple(owners))


def _closes(words: Sequence[SpokenWord], index: int) -> bool:
    """Whether a pause follows."""
    return index + 1 == len(words) or words[index + 1].is_pause


def _word(word: SpokenWord, closes: bool) -> Iterator[str]:
    """The letters of each symbol."""
    names = [SYMBOLS[symbol] for symbol in word.symbols]
    is_light = word.text in _LIGHT and sum(map(_is_vowel, names)) == 1
    for place, name in enumerate(names):
        before = names[place - 1] if place else ""
        after = names[place + 1] if place + 1 < len(names) else ""
        if word.is_pause:
            yield _PAUSES[name]
        elif _is_vowel(name):
            yield _vowel(name, before, names[place + 1 :], is_light, closes)
        elif name == "T" and _ends_in_vowel(before) and _is_vowel(after) and after[-1] == "0":
            yield _TAP
        else:
            yield _CONSONANTS[name]


def _vowel(name: str, before: str, rest: Sequence[str], is_light: bool, closes: bool) -> str:
    stress = _STRESS[name[-1]]
    if is_light:
        stress = _STRESS["2"] if stress and closes else ""
    if name == "AH0" and _is_syllabic(before, rest):
        return _SYLLABIC
    return stress + _WEAK.get(name, _VOWELS[name[:-1]])


def _is_syllabic(before: str, rest: Sequence[str]) -> bool:
    """Whether L takes the place of the weak vowel before it."""
    is_behind_consonant = bool(before) and not _ends_in_vowel(before)
    return is_behind_consonant and rest[:1] == ["L"] and not any(map(_is_vowel, rest[1:2]))


def _is_vowel(name: str) -> bool:
    return name[:-1] in VOWELS


def _ends_in_vowel(name: str) -> bool:
    return _is_vowel(name) or name == "R"
