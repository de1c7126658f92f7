"""Full stops: whether one ends a sentence or belongs to an abbreviation, an initial or a unit."""

from __future__ import annotations

import re

from talkahead.text.abbreviations import ABBREVIATIONS, AFTER_A_NAME, Abbreviation, Stop
from talkahead.text.neighbours import Match, word_after, word_before
from talkahead.text.roman import is_numbered
from talkahead.text.units import DIRECTIONS
from talkahead.text.word_list import SENTENCE_STARTERS, word_list

_NOTHING_LEFT = re.compile(r"[\s\"')\]]*\Z")
_BEFORE_NAMES = word_list("by and with from to for of")
_INITIAL = re.compile(r"\.\s?(?:[A-Z]\.|[A-Z][a-z])")


def abbreviation(match: Match) -> Abbreviation | None:
    """What a word abbreviates, if it does so here."""
    found = ABBREVIATIONS.get(match[0])
    if found is None:
        return None
    has_stop = match.string.startswith(".", match.end())
    after = word_after(match.string, match.end() + has_stop)
    is_last = not after[:1].isupper() or after in SENTENCE_STARTERS or after in DIRECTIONS
    if match[0] in AFTER_A_NAME and is_last and word_before(match)[:1].isupper():
        return Abbreviation(AFTER_A_NAME[match[0]], Stop.MAY_END, needs_stop=False)
    if found.needs_stop and not has_stop:
        return None
    if found.stop is Stop.BEFORE_NUMBER:
        return found if after.isdigit() or is_numbered(match[0], after) else None
    if found.needs_stop and match[0].islower() and opens_sentence(match.string, match.end() + 1):
        return None  # a word that ends its sentence ("the max.")
    return found


def stop_after(match: Match, form: str) -> int | None:
    """Where the full stop stands that belongs to the form itself; None if there is none."""
    text, end = match.string, match.end()
    if form in ("dotted", "clock", "day_month", "phrase", "measure") and match[0].endswith("."):
        return end - 1
    if not text.startswith(".", end):
        return None
    if form == "word":
        is_initial = len(match[0]) == 1 and match[0].isupper() and _is_initial(match)
        return end if is_initial or abbreviation(match) else None
    after = text[end + 1 : end + 3].lstrip()[:1]
    return end if form in ("measure", "per") and (after.islower() or after in ",;") else None


def may_end(match: Match, form: str) -> bool:
    """Whether the stop of this form can also end a sentence."""
    if form != "word":
        return True
    found = abbreviation(match)
    return found is not None and found.stop is Stop.MAY_END


def _is_initial(match: Match) -> bool:
    """Whether a capital with a full stop abbreviates a name ("J. Smith"), rather than ending a sentence."""
    if not _INITIAL.match(match.string, match.end()):
        return False
    before = word_before(match)
    follows_name = not before or before[0].isupper() or before in _BEFORE_NAMES
    return match[0] != "I" and follows_name and not opens_sentence(match.string, match.end() + 1)


def opens_sentence(text: str, place: int) -> bool:
    """Whether nothing follows, or a word that usually opens a sentence."""
    after = word_after(text, place)
    return after in SENTENCE_STARTERS or (not after and _NOTHING_LEFT.match(text, place) is not None)
