"""What stands beside a written form: the words before and after it, and what they make of it."""

from __future__ import annotations

import re
from collections.abc import Callable

from talkahead.text.word_list import FUNCTION_WORDS, word_list

Match = re.Match[str]
Reader = Callable[[Match], list[str]]
"""From a written form to its spoken words and pauses."""

_CONTEXT = 24
"""Characters looked back for the word before."""
_CUE_CONTEXT = 40
"""Characters looked back for what makes a number a code."""
_QUOTED = 200
"""Characters looked back for an opening quote."""
_NEXT_WORD = re.compile(r"[\s\"'(\[]*([^\W\d_]+|\d)")
_WORD_BEFORE = re.compile(r"([^\W\d_]+)['\"]?[\s-]*$")
_PLACES = word_list("room suite apartment flight route highway interstate bus gate")
_ROADS = word_list("I US")
"""Named by their numbers after a hyphen."""
_ARTICLES = word_list("a an A An")
_DETERMINERS = word_list(
    "the this that your my our his her its their The This That Your My Our His Her Its Their"
)
_NO_NOUN = re.compile(r"\w*(?:ed|ly|[^s]s)")
"""After "your $20", what may as well be a verb or its adverb."""
_BOUGHT = word_list(
    """deal bill note coin fee fine budget deposit loan grant prize bonus check credit discount coupon voucher
    gift rebate refund limit minimum maximum investment acquisition contract settlement lawsuit donation bet
    copay deductible surcharge stipend allowance tip card ticket"""
)
"""What has its price before it."""
_NUMBERED = "account|confirmation|order|tracking|reference|routing|policy|case|ticket|serial|phone"
_CODE_CUE = re.compile(
    rf"(?:\b(?:zip|pin|id|cv[vc]|extension|(?:pass)?code|password|ending in|last four|repeat"
    rf"|(?:{_NUMBERED}) number)"
    r"(?: is| was)?[:,]?\s[#\"]?)(?:\d{1,12}[ -]){0,5}\d{0,12}$",
    re.IGNORECASE,
)
_LONG_CODE_CUE = re.compile(
    rf"(?:#|\b(?:{_NUMBERED}|invoice|claim|booking|reservation|member|customer)\s)$", re.IGNORECASE
)
_LONG_CODE = 5
"""Digits from which on the number of a thing is a code, where shorter ones count ("#7", "order 12")."""
_BETWEEN = re.compile(r"\b[Bb]etween\s[$£€]?[\d:.,]{1,20}(?:\s?[ap]\.?m)?\s?$")


def word_after(text: str, place: int) -> str:
    """The word or digit that follows, over spaces, quotes and opening brackets; "" if something else does."""
    match = _NEXT_WORD.match(text, place)
    return match[1] if match else ""


def text_before(match: Match, characters: int) -> str:
    """So many characters before the form, or as many as there are."""
    return match.string[max(0, match.start() - characters) : match.start()]


def word_before(match: Match) -> str:
    """The word just before, over a space, hyphen or quote; "" if something else is there."""
    found = _WORD_BEFORE.search(text_before(match, _CONTEXT))
    return found[1] if found else ""


def modifies_noun(match: Match) -> bool:
    """Whether a quantity stands between an article and its noun ("a $5 bill", "your $20 credit")."""
    before, after = word_before(match), word_after(match.string, match.end())
    if before in _DETERMINERS:
        return precedes_noun(match) and not _NO_NOUN.fullmatch(after)
    return after.removesuffix("s") in _BOUGHT or (before in _ARTICLES and precedes_noun(match))


def precedes_noun(match: Match) -> bool:
    """Whether the next word is one of content, as far as spelling shows."""
    after = word_after(match.string, match.end())
    return after.islower() and after not in FUNCTION_WORDS


def closes_quote(match: Match) -> bool:
    """Whether a mark of inches that ends the match closes a quotation instead."""
    last = match.end() - 1
    opening = match.string.rfind('"', max(0, last - _QUOTED), last)
    return opening >= 0 and not match.string[opening - 1 : opening].isalnum()


def is_place(match: Match) -> bool:
    """Whether a number names a room, a road or a flight ("Room 305", "I-280")."""
    before = word_before(match)
    return before.lower() in _PLACES or (before in _ROADS and match.string[match.start() - 1] == "-")


def is_code(match: Match) -> bool:
    """Whether the words before make a number one to be read digit by digit ("your code is 4521"), or what
    parts its digits ("code 839-201")."""
    before = text_before(match, _CUE_CONTEXT)
    is_long = len(match[0]) >= _LONG_CODE and _LONG_CODE_CUE.search(before) is not None
    return is_long or _CODE_CUE.search(before) is not None


def joins_both(match: Match) -> bool:
    """Whether a dash stands for "and" ("between 9-11 am")."""
    return _BETWEEN.search(text_before(match, _CUE_CONTEXT)) is not None
