"""Phrases that the hearing misses or has twice are found, and misheard words are no phrases."""

from __future__ import annotations

import numpy as np
from taught import CLEAR, said

from instruments.measures.ear import Ear
from instruments.measures.phrases import Phrases, check_phrases, compare, confirmed
from instruments.measures.word_errors import words_of
from instruments.recording import Recording

WHOLE = Phrases((), ())


def test_a_phrase_counts_only_where_most_of_its_letters_are_missing() -> None:
    asked = words_of("she was the namer of a boat and of a ship")
    skipped, repeated = Phrases(("a boat",), ()), Phrases((), ("a ship",))
    assert confirmed(skipped, asked, asked) == WHOLE
    assert confirmed(skipped, asked, words_of("she was the namer of about and of a ship")) == WHOLE
    assert confirmed(skipped, asked, words_of("she was the namer of and of a ship")) == skipped
    assert confirmed(repeated, asked, asked) == WHOLE
    assert confirmed(repeated, asked, [*asked, "a", "ship"]) == repeated


def test_a_phrase_is_two_words_or_more() -> None:
    asked = ["a", "b", "c", "d", "e", "f"]
    assert compare(asked, asked) == WHOLE
    assert compare(asked, ["a", "b", "d", "e", "f"]) == WHOLE
    assert compare(asked, ["a", "b", "c", "c", "d", "e", "f"]) == WHOLE
    assert compare(asked, ["a", "d", "e", "f"]) == Phrases(("b c",), ())
    assert compare(asked, ["a", "b", "c", "d", "b", "c", "d", "e", "f"]) == Phrases((), ("b c d",))
    assert compare(asked, ["a", "b", "c", "d", "f", "b", "c", "d", "e", "f"]) == Phrases((), ("b c d",))
    # Words from here and there are no phrase.
    assert compare(asked, ["a", "b", "c", "d", "f", "b", "e", "f"]) == WHOLE
    assert compare(asked, []) == Phrases(("a b c d e f",), ())
    # What was said in place of a phrase does not stand for it.
    assert compare(asked, ["a", "b", "f", "f"]).skipped == ("c d e",)
    assert compare(asked, ["a", "x", "d", "e", "f"]).skipped == ("b c",)


def test_what_was_heard_is_compared_as_it_is_written() -> None:
    asked = "please call extension five four two before the end of may."
    assert check_phrases(asked, "Please call extension 5-4-2 before the end of May.") == WHOLE
    assert check_phrases(asked, "Please coal extinction 542, be for the and of May.") == WHOLE
    assert check_phrases(asked, "Please call extension 542.").skipped == ("before the end of may",)
    assert check_phrases(asked, "Please call. Please call extension 542 before the end of May.") == Phrases(
        (), ("please call",)
    )
    assert check_phrases(asked, "").skipped == ("please call extension 542 before the end of may",)


def test_what_was_cut_out_or_doubled_is_found() -> None:
    ear, recording = Ear(), said(CLEAR)
    words = ear.follow(recording)
    start, stop = (round(at_s * recording.rate_hz) for at_s in (words[3].start_s, words[8].start_s))
    whole = recording.samples

    def checked(*parts: slice) -> Phrases:
        samples = np.concatenate([whole[part] for part in parts])
        return check_phrases(CLEAR, ear.hear(Recording(samples, recording.rate_hz)))

    assert checked(slice(None)) == WHOLE
    assert "train would" in " ".join(checked(slice(start), slice(stop, None)).skipped)
    assert "train would" in " ".join(checked(slice(stop), slice(start, None)).repeated)
