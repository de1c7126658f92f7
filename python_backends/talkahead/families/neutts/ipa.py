"""Our phonemes in the alphabet of espeak's American English, which NeuTTS has read in training.

Every symbol of ours has a place in that alphabet, so nothing goes unsaid. What espeak tells apart and we do
not cannot be mapped back: its syllabic n ("button" with a glottal stop), the vowel between i and schwa of
"roses" and "wanted", "four" against "for", vowels that it weakens by their place in a phrase, and words that
it writes as one ("of the"). Its names and rare words come from rules of its own. A checkpoint hears these as
a slight accent; with espeak itself (`espeak.py`) there is no difference.
"""

from __future__ import annotations

from talkahead.text.admission import admit
from talkahead.text.frontend import TextFrontend
from talkahead.text.prosody import SpokenWord
from talkahead.text.symbols import STRESSES, SYMBOLS, VOWELS
from talkahead.text.word_list import FUNCTION_WORDS

_CONSONANTS = {
    "B": "b", "CH": "tʃ", "D": "d", "DH": "ð", "F": "f", "G": "ɡ", "HH": "h", "JH": "dʒ", "K": "k", "L": "l",
    "M": "m", "N": "n", "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "V": "v",
    "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
_VOWELS = {
    "AA": "ɑː", "AE": "æ", "AH": "ʌ", "AO": "ɔː", "AW": "aʊ", "AY": "aɪ", "EH": "ɛ", "ER": "ɜː", "EY": "eɪ",
    "IH": "ɪ", "IY": "iː", "OW": "oʊ", "OY": "ɔɪ", "UH": "ʊ", "UW": "uː",
}  # fmt: skip
_UNSTRESSED = {"AH": "ə", "ER": "ɚ", "IY": "i"}
_MARKS = dict(zip(STRESSES, ("", "ˈ", "ˌ"), strict=True))
_FLAP, _FIRST_A = "ɾ", "ɐ"
_SYLLABLES = frozenset(vowel + stress for vowel in VOWELS for stress in STRESSES)
_WEAK = frozenset(vowel + "0" for vowel in VOWELS)


class Ipa:
    """The `Spelling` of NeuTTS by our own frontend, which reads numbers and marks as for our own voice."""

    def __init__(self) -> None:
        self._frontend = TextFrontend()

    def admit(self, text: str) -> None:
        admit(text)

    def spell(self, text: str) -> str:
        words = (word.text if word.is_pause else f" {_spelled(word)}" for word in self._frontend.spoken(text))
        return "".join(words).strip()


def _spelled(word: SpokenWord) -> str:
    phonemes = [SYMBOLS[symbol] for symbol in word.symbols]
    leans = word.text in FUNCTION_WORDS and sum(phoneme in _SYLLABLES for phoneme in phonemes) == 1
    letters = [
        _FLAP if _is_flapped(phonemes, place) else _letter(phoneme, leans)
        for place, phoneme in enumerate(phonemes)
    ]
    if phonemes[0] == "AH0" and word.text.startswith("a"):
        letters[0] = _FIRST_A
    return "".join(letters)


def _letter(phoneme: str, leans: bool) -> str:
    """`leans`: on a neighbour, and has no stress of its own."""
    if phoneme in _CONSONANTS:
        return _CONSONANTS[phoneme]
    vowel, stress = phoneme[:-1], phoneme[-1]
    if stress == "0":
        return _UNSTRESSED.get(vowel, _VOWELS[vowel])
    return ("" if leans else _MARKS[stress]) + _VOWELS[vowel]


def _is_flapped(phonemes: list[str], place: int) -> bool:
    """Whether a T stands between vowels, the second of them weak, as in "city" and "party"."""
    if phonemes[place] != "T" or not 0 < place < len(phonemes) - 1:
        return False
    return phonemes[place - 1] in _SYLLABLES | {"R"} and phonemes[place + 1] in _WEAK
