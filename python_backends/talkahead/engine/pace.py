"""Whether the machine keeps up with its listeners, and with one more."""

from __future__ import annotations

import math

from talkahead.engine.running_mean import RunningRatio

_MEMORY = 32
"""Steps, and windows."""


class Pace:
    """What was measured of both stages, and what that makes of so many streams.

    A pace is seconds of speech a second, of one stream: at 1 it is spoken as fast as it is heard.

    Args:
        tokens_per_s: of a second of speech.
        least: who would be spoken at less than that is refused, where others are late already.
        late_after_s: what listeners wait in all, for speech that had begun to go on, until they call it late.
        rows: streams that a step decodes at most; more take turns.
    """

    def __init__(self, tokens_per_s: float, *, least: float, late_after_s: float, rows: int) -> None:
        self._tokens_per_s = tokens_per_s
        self._least = least
        self._late_after_s = late_after_s
        self._rows = rows
        self._step_s: dict[int, RunningRatio] = {}
        """By tokens of a row, for each number of rows that was seen."""
        self._codec_s = RunningRatio(_MEMORY)
        """By seconds of speech."""

    def stepped(self, seconds: float, tokens: float, rows: int) -> None:
        """A step of the talker added so many tokens to each of its rows."""
        self._step_s.setdefault(rows, RunningRatio(_MEMORY)).add(seconds, tokens)

    def decoded(self, seconds: float, speech_s: float) -> None:
        """The codec made so much speech of a window."""
        self._codec_s.add(seconds, speech_s)

    def of(self, num_streams: int) -> float:
        """Of each of so many that are spoken together; infinite while nothing is known.

        The codec makes one window after another. A step of more rows than were seen is taken to cost no more
        than one of the most: where weights bound it, that is so, and where not, the next stream's prediction
        knows.
        """
        step_s = self._step_of(min(num_streams, self._rows)) * max(num_streams / self._rows, 1.0)
        slowest_s = max(self._tokens_per_s * step_s, num_streams * self._codec_s.value)
        return 1.0 / slowest_s if slowest_s else math.inf

    def _step_of(self, rows: int) -> float:
        """Seconds by tokens of a row: of the fewest rows seen that are as many, or else of the most."""
        more = min((seen for seen in self._step_s if seen >= rows), default=max(self._step_s, default=None))
        return 0.0 if more is None else self._step_s[more].value

    def is_late(self, waited_s: float) -> bool:
        """Of a stream whose listener has waited so long in all."""
        return waited_s >= self._late_after_s

    def objection(self, num_streams: int, waited_s: float) -> str | None:
        """Why a newcomer, the last of so many, should not begin; None where it may.

        A prediction alone refuses nobody. One alone is spoken, however slowly, and so are those who come
        together: they are as late as they are many, and want it so. Who comes to others that already wait
        would make them wait longer.

        Args:
            waited_s: by the listener among the others who has waited longest.
        """
        pace = self.of(num_streams)
        if pace >= self._least or not self.is_late(waited_s):
            return None
        return (
            f"open streams are late already, and with one more each would get {pace:.2g} seconds of speech a "
            f"second (min_pace is {self._least:g}); try again when some have ended"
        )
