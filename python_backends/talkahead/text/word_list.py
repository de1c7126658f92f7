"""Sets of words, written as text so that they can be read."""

from __future__ import annotations


def word_list(text: str) -> frozenset[str]:
    """The words of `text`, parted by white space."""
    return frozenset(text.split())


FUNCTION_WORDS = word_list(
    """a an the this that these those my your his her its our their some any every no each i you he she it
    we they who which what whose of in on at by for with from to into onto upon about over under
    after before between through during without within against among toward towards behind beyond
    near off out up down since until till per as than like and or but nor so yet if because while
    when where although though unless whether is am are was were be been being has have had having
    do does did will would shall should can could may might must not there isn't aren't wasn't
    weren't don't doesn't didn't won't can't i'm i've i'll i'd you're you've you'll you'd he's he'd
    he'll she's she'd she'll it's it'll we're we've we'll we'd they're they've they'll they'd that's
    there's"""
)
"""Words that lean on a neighbour instead of carrying an accent."""

OBJECT_PRONOUNS = word_list("me him them us it her you")
"""Function words that may lean back on a content word before them."""

SENTENCE_STARTERS = word_list(
    """The A An This That These Those He She It We They I You My Your His Her Its Our Their There Here In
    On At By For With From To But And Or So If As When While Then What Where Who Why How Is Are Was
    Were Do Does Did Can Will Would Should Please No Yes Not After Before However Also Now Today
    Tomorrow Yesterday Some Many Most All One Two Call Let Thank Thanks Hello"""
)
"""Capitalised words that open a sentence rather than go on with a name; they settle what "etc." ends."""
