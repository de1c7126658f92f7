"""Writes the frontend's lexicon: the words of gruut's English lexicon as the teacher, flite, pronounces them.

`python -m training.export_lexicon` needs Debian's libflite1 and the package gruut-lang-en.
Its output is committed.

Where flite's own dictionary has a word, or its letter-to-sound rules agree with gruut but for reduced vowels,
flite's phonemes are kept, because they are what the talker hears in training. Elsewhere gruut's are kept:
those are the words that flite gets wrong.
"""

from __future__ import annotations

import ctypes
import gzip
import re
import sqlite3
from collections.abc import Container, Iterable, Sequence
from contextlib import closing
from importlib.resources import as_file, files
from pathlib import Path

from talkahead.text.letter_to_sound import arpabet
from talkahead.text.lexicon import LEXICON_NAME
from talkahead.text.word_list import FUNCTION_WORDS, word_list

Phonemes = tuple[str, ...]

HEADER = (
    "# Words, phonemes, phonemes as a verb where these differ.",
    "# From the CMU Pronouncing Dictionary (Copyright Carnegie Mellon University, BSD-2-Clause) by way of",
    "# gruut-lang-en 2.0.1 (MIT) and flite 2.2 (BSD-like).",
)
REDUCED = re.compile(r"(AA|AE|AH|AO|EH|IH|IY|OW|UH|UW)0")
EQUIVALENT = (
    ("AO", "AA"),
    ("ER", "@ R"),
    ("@ R R", "@ R"),
    ("Y UW", "UW"),
    ("Y @", "@"),
    ("NG K", "N K"),
    ("NG G", "N G"),
)
OVERRIDES = {
    "o'clock": "AH0 K L AA1 K", "covid": "K OW1 V IH0 D", "wound": "W UW1 N D",
    "was": "W AH1 Z", "update": "AH1 P D EY2 T", "updates": "AH1 P D EY2 T S",
}  # fmt: skip
"""Words that flite says well and gruut does not, that neither has, or that both say as nobody does."""
NOT_VERBS = word_list("does do dos de were won lead re nemo maas thou number used")
"""Words whose roles in gruut tell other things apart than noun and verb."""
TRUSTED = FUNCTION_WORDS | word_list(
    """government governments governmental different difference differences interest interests interested
    interesting carry carries carried carrying carrier carriage usual usually casual casually temperature
    temperatures strength suggested suggestion suggestions suggestive presidential residential association
    associations tuesday thursday often arrow barrel barrier realize realized retired desirable practically"""
)
"""Frequent words whose pronunciation by flite is another than gruut's and as good."""
PAST_TENSES = frozenset({"read", "misread"})
"""Written as the verb; said so only where the sentence asks for its base form."""
DISTRUSTED = frozenset({"does", "lead", "reading"})
"""Frequent words that flite has wrong."""


class Flite:
    """flite's CMU lexicon, asked through its shared libraries."""

    def __init__(self) -> None:
        self._flite = ctypes.CDLL("libflite.so.1", mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL("libflite_usenglish.so.1", mode=ctypes.RTLD_GLOBAL)
        cmulex = ctypes.CDLL("libflite_cmulex.so.1", mode=ctypes.RTLD_GLOBAL)
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        for function, result, arguments in (
            (self._flite.lex_lookup, pointer, (pointer, text, text, pointer)),
            (self._flite.in_lex, ctypes.c_int, (pointer, text, text, pointer)),
            (self._flite.val_car, pointer, (pointer,)),
            (self._flite.val_cdr, pointer, (pointer,)),
            (self._flite.val_string, text, (pointer,)),
            (self._flite.delete_val, None, (pointer,)),
            (cmulex.cmu_lex_init, pointer, ()),
        ):
            function.restype, function.argtypes = result, arguments
        self._flite.flite_init()
        self._lexicon = cmulex.cmu_lex_init()

    def pronounce(self, word: str, part_of_speech: str | None = None) -> Phonemes:
        """ARPAbet symbols; `part_of_speech` is flite's "n" or "v"."""
        tag = part_of_speech.encode() if part_of_speech else None
        head = cell = self._flite.lex_lookup(self._lexicon, word.encode(), tag, None)
        phones = []
        while cell:
            phones.append(self._flite.val_string(self._flite.val_car(cell)).decode())
            cell = self._flite.val_cdr(cell)
        if head:
            self._flite.delete_val(head)
        return tuple(_from_flite(phone) for phone in phones)

    def knows(self, word: str) -> bool:
        return bool(self._flite.in_lex(self._lexicon, word.encode(), None, None))


def _from_flite(phone: str) -> str:
    symbol = phone.upper().replace("AX", "AH")
    return f"{symbol}0" if symbol in {"AH", "IH"} else symbol


def fold(phonemes: Phonemes) -> str:
    """Phonemes without what careful and careless speech of one word differ in."""
    reduced = (REDUCED.sub("@", phoneme) for phoneme in phonemes)
    joined = " ".join(phoneme.rstrip("012") for phoneme in reduced)
    for careful, careless in EQUIVALENT:
        joined = joined.replace(careful, careless)
    return joined


def gruut_words() -> dict[str, dict[str, list[Phonemes]]]:
    """Words to role ("VB", "NN", "" ...) to pronunciations, in gruut's order of preference."""
    words: dict[str, dict[str, list[Phonemes]]] = {}
    with as_file(files("gruut_lang_en") / "lexicon.db") as path, closing(sqlite3.connect(path)) as database:
        rows: Iterable[Sequence[str]] = database.execute(
            "SELECT word, role, phonemes FROM word_phonemes ORDER BY id"
        )
        for word, role, phonemes in rows:
            spelled = tuple(arpabet(ipa) for ipa in phonemes.split())
            words.setdefault(word, {}).setdefault(role.removeprefix("gruut:"), []).append(spelled)
    words |= {word: {} for word in OVERRIDES}
    return {word: roles for word, roles in words.items() if _is_entry(word, words)}


def _is_entry(word: str, words: Container[str]) -> bool:
    """Whether a word is one of letters, and no possessive that follows from its stem."""
    is_possessive = word.endswith("'s") and word.removesuffix("'s") in words
    return re.fullmatch(r"[a-z][a-z']*", word) is not None and not is_possessive


def as_teacher(
    flite: Flite, word: str, reference: Sequence[Phonemes], part_of_speech: str | None
) -> Phonemes:
    """The teacher's phonemes of a word where they can be trusted, else the first of `reference`."""
    spoken = flite.pronounce(word, part_of_speech)
    if word in DISTRUSTED:
        return reference[0]
    if "'" in word:  # flite takes words apart at the apostrophe before it looks them up
        return (*reference[0][:-3], "N", "T") if reference[0][-3:] == ("AH0", "N", "T") else reference[0]
    if word in TRUSTED:
        return spoken
    agrees = fold(spoken) in {fold(candidate) for candidate in reference}
    is_known = flite.knows(word) and part_of_speech != "v"
    is_stressed = "1" in "".join(spoken) or "1" not in "".join(reference[0])
    return spoken if is_stressed and (agrees or is_known) else reference[0]


def entry(flite: Flite, word: str, roles: dict[str, list[Phonemes]]) -> tuple[Phonemes, Phonemes | None]:
    """Phonemes of a word, and as a verb if these differ."""
    if word in OVERRIDES:
        return tuple(OVERRIDES[word].split()), None
    everything = [phonemes for pronunciations in roles.values() for phonemes in pronunciations]
    part_of_speech = None if word in FUNCTION_WORDS else "n"
    verb = roles["VB"][0] if "VB" in roles and word not in NOT_VERBS else None
    if verb is None:
        return as_teacher(flite, word, everything, part_of_speech), None
    if word in PAST_TENSES:
        return roles["VBD"][0], verb
    others = [phonemes for phonemes in everything if phonemes != verb]
    plain = as_teacher(flite, word, [*others, verb], part_of_speech)
    return plain, as_teacher(flite, word, [verb], "v")


def main() -> None:
    flite = Flite()
    lines = list(HEADER)
    for word, roles in sorted(gruut_words().items()):
        plain, verb = entry(flite, word, roles)
        columns = [word, " ".join(plain)] + ([" ".join(verb)] if verb and verb != plain else [])
        lines.append("\t".join(columns))
    package = Path(__file__).parents[1] / "python_backends" / "talkahead" / "text"
    content = ("\n".join(lines) + "\n").encode()
    (package / LEXICON_NAME).write_bytes(gzip.compress(content, 9, mtime=0))
    print(f"{len(lines) - len(HEADER):,} words")


if __name__ == "__main__":
    main()
