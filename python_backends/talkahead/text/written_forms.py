"""How numbers, dates, addresses and the like are written: named forms, tried in order at each place.

Every repetition is bounded, so that no text takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from talkahead.text.abbreviations import PHRASES
from talkahead.text.inline_marks import LINK, PRONUNCIATION, SAY_AS
from talkahead.text.states import STATES
from talkahead.text.transliteration import LATIN
from talkahead.text.units import ATTACHED_ONLY, BEFORE_SIZES, CURRENCIES, DIRECTIONS, MAGNITUDES, UNITS
from talkahead.text.word_list import word_list

MARKS_INSIDE_WORDS = "\u0300-\u036f\u00ad\u200b-\u200d\u2060\ufe0e\ufe0f"
"""Combining accents and invisible characters, which may stand inside a word."""
VULGAR_FRACTIONS: dict[str, str] = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8", "⅐": "1/7", "⅑": "1/9",
    "⅒": "1/10",
}  # fmt: skip


def _any_of(written: Iterable[str]) -> str:
    """A pattern of any of these strings, longest first."""
    return "|".join(re.escape(text) for text in sorted(written, key=len, reverse=True))


_INTEGER = r"(?:\d{1,3}(?:,\d{3}){1,4}(?!,?\d)|\d{1,15}(?!\d))"
_DECIMAL = rf"(?:{_INTEGER}(?:\.\d{{1,15}}(?!\d))?|\.\d{{1,15}}(?!\d))"
_CENTS_BEHIND_COMMA = r"\d{1,6},\d{2}(?![\d,])"
_YEAR = r"[12]\d{3}(?!\d)"
_MONTH = (
    r"(?:(?i:january|february|april|june|july|august|september|october|november|december|jan|feb|apr|jun|jul"
    r"|aug|sept|sep|oct|nov|dec)|March|May|Mar)\b"
)
WEEKDAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)"
_CALENDAR = rf"(?:{WEEKDAY}(?:day)?\b|{_MONTH})"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])"
_HALF_DAY = r"(?:(?i:[ap]\.m\.)|(?i:[ap]m)\b)"
_DOMAIN = r"(?:com|org|net|edu|gov|mil|info|biz|co\.uk|io|ai|dev|app|uk|de|fr|ch|eu|nl|ca|au)"
_PATH = r"[^\s<>\"()]{0,300}[\w/]"
_FILE_ENDING = _any_of(
    word_list(
        """py js jsx ts tsx txt pdf csv json htm html css md exe zip tar gz jpg jpeg png svg webp doc docx xls
        xlsx ppt pptx mp3 mp4 wav gif xml yml yaml toml ini log sh sql"""
    )
)
_STREET = r"(?:St|Ave|Blvd|Rd|Dr|Ln|Ct|Street|Avenue|Boulevard|Road|Drive|Lane|Court)"
_PART, _PARTS = r"[A-Z\d]{1,12}", r"[A-Z\d-]{0,60}"
"""Of an identifier: it has three, or digits before a letter, or a number that nobody counts."""
_TAG_END = r"(?:\s[^<>\n]{0,300})?/?>"
INLINE_TAG = rf"</?(?:b|i|u|s|em|strong|small|mark|code|kbd|span|sup|sub|del|ins|a){_TAG_END}"
"""Of HTML, amid a sentence."""
_BYTE = r"[\dA-Fa-f]{2}"
_SIGN = r"(?<![\w)%°])[-−+]"
_LETTER = f"[{LATIN}]"
_SPACED_UNIT = (
    _any_of(unit for unit in UNITS if unit not in ATTACHED_ONLY | BEFORE_SIZES)
    + rf"|(?:{_any_of(BEFORE_SIZES)})(?=\s(?:tall|wide|long|high|deep|thick|by|x)\b)"
)

FORMS: dict[str, str] = {
    "endless": r"\d{16,}",
    "pronunciation": PRONUNCIATION,
    "say_as": SAY_AS,
    "link": LINK,
    "heading": r"(?<![^\n])#{1,6}\s(?P<he_text>[^\n]{1,300})(?=\n)",
    "fence": r"(?<![^\n])(?:```|''')[\w+#.-]{0,20}(?=\n)|(?<![^\n])\|[\s:|-]{3,300}\|(?=\n)",
    "tag": (
        rf"{INLINE_TAG}"
        rf"|(?P<tg_block></?(?:p|br|hr|li|ul|ol|div|h[1-6]|tr|td|th|table|blockquote|pre){_TAG_END})"
    ),
    "plain": r"(?<=\s)[a-z]{1,31}(?=\s[a-z])",
    "phrase": rf"(?<![\w&])(?:{_any_of(PHRASES)})(?![\w&/])",
    "url": rf"(?i:https?://|www\.){_PATH}",
    "path": r"(?<![\w./])/[A-Za-z][\w.-]{0,64}(?:/[\w.-]{0,64}\w){1,10}",
    "email": r"[\w.+-]{1,64}@[A-Za-z\d-]{1,63}(?:\.[A-Za-z\d-]{1,63}){1,4}",
    "file": rf"[\w-]{{1,64}}(?:\.[A-Za-z\d]{{1,10}}){{0,2}}\.(?:{_FILE_ENDING})\b(?!\.\w)",
    "domain": (
        rf"(?:(?:[A-Za-z\d-]{{1,63}}\.){{1,4}}{_DOMAIN}\b(?![.@]\w)|localhost\b(?=:\d))(?::\d{{2,5}}\b)?"
        rf"(?:/{_PATH})?(?:'s\b)?"
    ),
    "span": rf"(?P<sp_from>{_CALENDAR})\.?\s?[-–]\s?(?P<sp_to>{_CALENDAR})(?!\s\d)",
    "weekday": rf"{WEEKDAY}\b\.?(?=,?\s(?:{_MONTH}|\d))",
    "compass": (
        rf"(?:(?<=\d\s)(?P<co_house>{_any_of(DIRECTIONS)})\b\.?(?=\s[A-Z][a-z]|,)"
        rf"|(?:(?<=\bSt\s)|(?<=\bAve\s)|(?<=\bSt\.\s)|(?<=\bAve\.\s)|(?<=\bStreet\s)|(?<=\bAvenue\s))"
        rf"(?P<co_after>{_any_of(DIRECTIONS)})\b"
        rf"|(?P<co_street>{_any_of(DIRECTIONS)})\b\.?"
        rf"(?=\s(?:[A-Z][a-z]{{1,20}}|\d{{1,3}}(?:st|nd|rd|th))\s{_STREET}\b))"
    ),
    "state": rf"(?<=[a-z],\s)(?:{_any_of(STATES)})\b(?=\.?\s*(?:\d{{5}}|[,;.)]|\Z))",
    "subreddit": r"(?<![\w/])[ru]/(?=[A-Za-z]{2})",
    "month_day": (
        rf"(?P<md_month>{_MONTH})\.?\s(?P<md_day>{_DAY})(?:[-–](?P<md_to>{_DAY})(?!\d))?(?:st|nd|rd|th)?"
        r"(?![\d:/]|[.,]\d)"
        rf"(?:,?\s(?P<md_year>{_YEAR}))?"
    ),
    "month_year": rf"(?P<my_month>{_MONTH})\.?,?\s(?P<my_year>{_YEAR})(?!,\d|\.\d)",
    "dotted": rf"(?<!\w)(?:{_LETTER}\.){{2,6}}(?:[A-Z](?!\w))?",
    "money": (
        rf"(?P<mo_minus>(?<!\w)[-−])?(?<![A-Za-z])(?P<mo_sign>{_any_of(CURRENCIES)})\s?"
        rf"(?P<mo_amount>{_CENTS_BEHIND_COMMA}|{_DECIMAL})(?:[-–](?P=mo_sign)?(?P<mo_to>{_DECIMAL}))?"
        rf"(?:(?P<mo_gap>[\s-]?)(?P<mo_times>{_any_of(MAGNITUDES)})\b)?"
    ),
    "vanity": r"(?P<va_digits>1-8\d\d)-(?P<va_letters>[A-Z]{2,10}(?:-[A-Z]{2,10})?)\b",
    "identifier": (
        rf"(?<![\w-])(?={_PARTS}[A-Z])(?={_PARTS}\d)(?=(?:{_PART}-){{2}}|{_PARTS}(?:\d[A-Z]|\d{{5}}|-0\d))"
        rf"{_PART}(?:-{_PART}){{1,6}}(?![\w-])|(?<![\w-])[a-z]\d{{1,3}}-\d{{3,6}}[A-Z]{{0,2}}(?![\w-])"
    ),
    "hexadecimal": (rf"(?<![\w:]){_BYTE}(?P<hx_mark>[:-])(?:{_BYTE}(?P=hx_mark)){{4}}{_BYTE}(?![\w:])"),
    "mixed": rf"{_LETTER}{{1,20}}\d[A-Za-z\d]{{0,20}}",
    "clipped": r"(?<!\w)'(?i:em|tis|twas|til|cause|bout|round)\b",
    "word": rf"{_LETTER}(?:{_LETTER}|'(?={_LETTER})|[{MARKS_INSIDE_WORDS}]){{0,31}}",
    "phone": (
        r"(?:\+?\d{1,3}[ .-]?)?\(\d{3}\) ?\d{3}[ .-]\d{4}(?!\d)"
        r"|(?:\+?\d{1,3}[ .-])?\d{3}(?P<ph_mark>[ .-])\d{3}(?P=ph_mark)\d{4}(?!\d)"
        r"|(?<![\d-])\d{3}-\d{4}(?![\d-])"
        r"|\+\d{1,3}(?:[ .-]?\d{2,4}){2,5}(?!\d)"
    ),
    "code": rf"(?<=(?:{'|'.join(STATES)})\s)\d{{5}}(?:-\d{{4}})?(?![\w-])|(?<=(?i:call|dial)\s)[2-9]11\b",
    "iso_date": (
        rf"(?P<id_year>[12]\d{{3}})(?P<id_mark>[-/])(?P<id_month>0?[1-9]|1[0-2])(?P=id_mark)(?P<id_day>{_DAY})"
        r"(?![\d-])(?:T(?=\d))?"
    ),
    "slash_date": (
        r"(?P<sd_first>\d{1,2})(?P<sd_mark>[/.-])(?P<sd_second>\d{1,2})(?P=sd_mark)"
        r"(?P<sd_year>(?:19|20)\d{2}|(?<=/)\d{2})(?![\d/])"
    ),
    "serial": r"\d{1,20}(?:-\d{1,20}){2,10}(?!\d)|\d{4}(?:\s\d{4}){3}(?!\d)",
    "version": r"(?P<ve_parts>\d{1,9}(?:\.\d{1,9}){2,8})(?!\d)(?:/(?P<ve_mask>\d{1,2})(?!\d))?",
    "day_month": (
        rf"(?P<dm_day>{_DAY})(?:st|nd|rd|th)?\s(?:of\s)?(?P<dm_month>{_MONTH})\.?(?:,?\s(?P<dm_year>{_YEAR}))?"
    ),
    "clock": (
        r"(?P<c_hour>[01]?\d|2[0-4])(?::(?P<c_minute>[0-5]\d)(?::(?P<c_second>[0-5]\d))?(?!\d)"
        rf"(?:\s?(?P<c_half>{_HALF_DAY}))?|(?:\.(?P<c_dotted>[0-5]\d))?\s?(?P<c_only>{_HALF_DAY}))"
    ),
    "ratio": r"(?P<r_one>\d{1,4}):(?P<r_other>\d{1,4})(?![\d:])",
    "duration": (
        r"(?=\d{1,3}[hm]\s?\d)(?:(?P<du_hours>\d{1,3})h)?(?:\s?(?P<du_minutes>\d{1,3})m(?:in)?)?"
        r"(?:\s?(?P<du_seconds>\d{1,2})s(?:ec)?)?(?!\w)"
    ),
    "decade": r"'?(?P<d_decade>(?:1[1-9]|20)\d0|[2-9]0)'?s\b",
    "ordinal": r"(?P<o_value>\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?i:st|nd|rd|th)\b",
    "fraction": (
        r"(?:(?P<f_whole>\d{1,4})\s)?(?P<f_above>\d{1,3})/(?P<f_below>\d{1,3})(?![\d/])"
        rf"(?:\s?(?P<f_unit>{_SPACED_UNIT})(?![\w²³]))?"
    ),
    "vulgar": (
        rf"(?P<v_whole>\d{{0,4}})\s?(?P<v_share>[{''.join(VULGAR_FRACTIONS)}])"
        rf"(?:\s?(?P<v_unit>{_SPACED_UNIT})(?![\w²³]))?"
    ),
    "scientific": r"(?P<s_digits>\d(?:\.\d{1,10})?)[eE](?P<s_power>[+-]?\d{1,3})\b",
    "height": r"(?P<h_feet>\d{1,3})'\s?(?P<h_inches>\d{1,2})(?:\"|''|\b)",
    "bearing": (
        r"(?P<g_degrees>\d{1,3}(?:\.\d{1,10})?)°\s?(?:(?P<g_minutes>\d{1,2}(?:\.\d{1,6})?)'\s?)?"
        rf"(?:(?P<g_seconds>\d{{1,2}}(?:\.\d{{1,6}})?)(?:\"|'')\s?)?(?P<g_direction>{_any_of(DIRECTIONS)})\b"
    ),
    "price": (
        rf"(?<![\d.,])(?P<la_amount>{_CENTS_BEHIND_COMMA}|{_INTEGER}\.\d{{2}}(?!\d))\s?(?P<la_sign>{_any_of(CURRENCIES)})"
        r"(?!\w)"
    ),
    "measure": (
        rf"(?P<m_sign>{_SIGN})?(?P<m_value>{_DECIMAL})(?:(?P<m_gap>[\s-]?)(?P<m_unit>{_SPACED_UNIT})"
        rf"|(?P<m_attached>{_any_of(ATTACHED_ONLY)}))(?:/(?P<m_per>{_any_of(UNITS)}))?(?![\w²³])"
    ),
    "by": rf"(?:(?P<b_value>{_DECIMAL})|(?<=\d))\s?[x×](?=\s?\d)",
    "multiple": rf"(?P<x_value>{_DECIMAL})x(?=\s[a-z]|/[a-z])",
    "thousands": (
        rf"(?![2458]K\b|3M\b)(?P<k_value>{_DECIMAL})(?P<k_times>[kK]|bn|M(?=\s[a-z])|(?<=\.\d)[BM])(?![\w/])"
    ),
    "item": r"(?<![^\n])(?P<i_number>\d{1,3})[.)]\s",
    "name": r"\d{1,15}[A-Za-z][A-Za-z\d]{0,20}",
    "number": rf"(?P<n_sign>{_SIGN})?(?P<n_value>{_DECIMAL})(?P<n_of>'s\b)?",
    "digits": r"\d",
    "range": (
        rf"(?:(?<=\d)|(?<=[ap]m)|(?<=[%°])|(?<=\d(?:st|nd|rd|th)))(?:[-–]|\s–\s)(?=[$£€]?\d|{_MONTH})"
        r"|(?<=[a-z])–(?=\d)|(?<=Q[1-4])[-–](?=Q?[1-4])"
    ),
    "per": (
        r"(?:(?<=\d)|(?<=\d[A-Za-z])|(?<=\d[A-Za-z]{2})|(?<=\d\s[A-Za-z])|(?<=\d\s[A-Za-z]{2}))"
        rf"/(?:(?P<p_unit>{_any_of(unit for unit in UNITS if unit.isalpha())})\b|(?={_LETTER}))"
    ),
    "hash": r"#(?=[^\W_]|:\s)|(?<=[a-z]\s)#(?=\s(?!key\b|button\b|sign\b)[a-z])",
    "key": (
        r"(?<=\d)#(?!\w)|(?<=\s)\*(?=\d{2}\b)"
        r"|(?:(?<=[Pp]ress\s)|(?<=\bor\s)|(?<=\bby\s)|(?<=\b[Hh]it\s))[*#](?=[\s.,?!]|\Z)"
        r"|(?<=\s)[*#](?=\s(?:key|button|sign)\b)"
    ),
    "at": r"@(?=\w)|(?<=\s)@(?=\s)",
    "about": r"(?<!\w)~(?=\s?[\d$£€])|(?<![\w)])(?<![\w)]\s)≈(?=\s?[\d$£€])",
    "bound": r"(?<=\s)[<>≤≥](?=\s?[\d$£€])",
    "sign": (
        r"(?<=\w) [<>→] (?=[\w$-])|[√∞≠]|±(?=\s?\d)|(?<=[\d%A-D])\+(?!\w)"
        r"|(?<=\d)\s?[*/^<>−]\s?(?=[\d.$])|(?<=\d)\s-\s(?=\d)|(?<=[\w)])\s?[+=×÷±≈≤≥]\s?(?=[\w(.$+=])"
        r"|[&%$£€¥₹°§№]|(?<=\w)[²³]|(?<=[A-Za-z)])\^[23](?!\d)"
    ),
    "end": (
        r"[.!?…。！？]+|\n\s*\n\s*|\n(?=\s*(?:[-*•]|\d{1,3}[.)]|#{1,6})\s|[A-Z][A-Za-z]{1,20}:\s)|\|[ \t]*\n"
    ),
    "pause": r"[,;:()\[\]{}|—―，、；：]+|--+|(?<=\s)[-–](?=\s)|(?<=\w)–(?=\w)",
}
"""Names to patterns; the first that matches at a place decides how it is read."""

_NOTHING_HERE = r" [A-Za-wyz]"
"""A space before a word begins no form (x may be a product's sign): a short cut past half of all places."""

PATTERN = re.compile(
    f"(?!{_NOTHING_HERE})(?:" + "|".join(f"(?P<{name}>{pattern})" for name, pattern in FORMS.items()) + ")"
)
