"""Which characters of a clause are heard when, as ElevenLabs' interface tells it."""

from __future__ import annotations

from itertools import pairwise


def spread_alignment(clause: str, silence_s: float, speech_s: float) -> dict[str, list[str] | list[int]]:
    """The characters of a clause, spread evenly over its speech: the server tells where a clause begins and
    ends, and not where its words do.

    Pipecat's service takes what was said from here, in words that a space ends, so there always is one at
    the end. Times are in milliseconds from the beginning of the clause, silence before it included.

    Args:
        clause: as it was written.
        silence_s: before its speech.
        speech_s: the length of its speech.
    """
    characters = [" " if character.isspace() else character for character in clause]
    ends = [silence_s + speech_s * place / len(clause) for place in range(len(clause) + 1)]
    if characters[-1] != " ":
        characters.append(" ")
        ends.append(ends[-1])
    times_ms = [round(1e3 * end_s) for end_s in ends]
    return {
        "chars": characters,
        "charStartTimesMs": times_ms[:-1],
        "charDurationsMs": [later - earlier for earlier, later in pairwise(times_ms)],
    }
