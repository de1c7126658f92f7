"""What the codec takes on this machine, and how much of a batch it decodes before it says something."""

from __future__ import annotations

from talkahead.engine.running_mean import RunningRatio

_MEMORY = 16
_PASS_S = 0.5
"""The talker hears of the vocoder this often at least, unless a single window takes longer."""


class DecodeCost:
    """Seconds by frame, measured pass by pass: a pass decodes windows together, padded to the widest."""

    def __init__(self) -> None:
        self._seconds_by_frame = RunningRatio(_MEMORY)

    def add(self, windows: int, width: int, seconds: float) -> None:
        """A pass took so long."""
        self._seconds_by_frame.add(seconds, windows * width)

    def seconds(self, windows: int, width: int) -> float:
        """What a pass will take; 0 while nothing is known."""
        return self._seconds_by_frame.value * windows * width

    def windows_of_a_pass(self, width: int, most: int) -> int:
        """How many windows of so many frames, at most, are decoded together: few where they take long."""
        one_s = self.seconds(1, width)
        return max(1, min(most, int(_PASS_S / one_s))) if one_s else most
