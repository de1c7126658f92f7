"""When words begin, of the rows of the prompt that a talker looks at as it speaks.

Shapes: F frames of a segment so far, n words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from talkahead.engine.windows import Cut
from talkahead.families.contracts import Words
from talkahead.types import WORD_BEGIN, Spoken


def words_within(words: Words, aligned: npt.NDArray[np.int32], cut: Cut, unheard: int) -> Words:
    """The words [n, 4] of a segment that begin in a window's new frames, in frames from the first of these.

    They do not depend on how the segment is cut, but for the window that they are in.

    Args:
        words: of the segment, in rows of its prompt.
        aligned: [F], the row that was looked at when each frame was drawn, those of the window and one more,
            if the segment has more.
        unheard: frames at the segment's beginning that no window makes audio of; a word that begins there
            begins with the first that is heard.
    """
    reached = reached_rows(aligned)[: cut.stop]
    begins = np.maximum(np.searchsorted(reached, words[:, WORD_BEGIN]), unheard)
    within = (cut.start <= begins) & (begins < cut.stop)
    found = words[within]
    found[:, WORD_BEGIN] = begins[within] - cut.start
    return found


def reached_rows(aligned: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """How far in its prompt a segment is at each frame, [F]: it never goes back, and a look ahead counts only
    where the next frame looks there, too."""
    confirmed = np.append(np.minimum(aligned[:-1], aligned[1:]), aligned[-1:])
    return np.maximum.accumulate(confirmed)


def whole_segment(char_start: int, char_end: int) -> Words:
    """A segment as one row of WORDS, which begins with a window."""
    return np.array([[char_start, char_end, 0, Spoken.SEGMENT]], np.int32)
