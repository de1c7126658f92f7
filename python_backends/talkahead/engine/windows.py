"""How an utterance's frames become windows for the vocoder: left context, new frames, look-ahead.

Pure arithmetic. The windows of an utterance tile its frames exactly once, but for those that are not to be
heard, and the last one is never empty.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """One window over frames [first, beyond) of an utterance, of which [start, stop) become audio."""

    first: int
    start: int
    stop: int
    beyond: int
    is_last: bool
    """True when it closes the utterance."""

    @property
    def context(self) -> int:
        return self.start - self.first

    @property
    def new(self) -> int:
        return self.stop - self.start

    @property
    def lookahead(self) -> int:
        return self.beyond - self.stop


@dataclass(frozen=True)
class WindowPlan:
    """Sizes of the windows of one stream, in frames.

    Args:
        context: the codec's finite receptive field to the left.
        lookahead: frames that the codec wants to the right.
        first_chunk_frames: new frames of the stream's first window; later ones double up to `chunk_frames`.
        chunk_frames: new frames of a full window.
        unheard: frames that each utterance begins with, and that no window makes audio of.
    """

    context: int
    lookahead: int
    first_chunk_frames: int
    chunk_frames: int
    unheard: int = 0

    def size(self, chunk: int) -> int:
        """New frames of window `chunk` of the stream (the ramp runs on over its segments)."""
        if chunk == 0:
            return self.first_chunk_frames
        doubled = self.first_chunk_frames << min(chunk, 16)
        return min(doubled, self.chunk_frames)

    @property
    def held_back(self) -> int:
        """Frames kept until the end is known: the look-ahead, but at least one for the last window."""
        return max(self.lookahead, 1)

    def frames_needed(self, start: int, chunk: int) -> int:
        """Frames that must exist before window `chunk`, beginning at frame `start`, can be cut."""
        return start + self.size(chunk) + self.held_back

    def cut(self, start: int, chunk: int, frames: int, ended: bool) -> Cut | None:
        """The next window of an utterance of which `frames` exist, or None when it must wait.

        The windows are the same whenever the end becomes known: with the last frame, as a draft tells it, or
        after it. Their audio is then the same to the last bit.

        Args:
            start: frames already spoken by earlier windows, and the unheard ones.
            chunk: index of the window in its stream.
            ended: no more frames will come.
        """
        first = max(start - self.context, 0)
        if frames >= self.frames_needed(start, chunk):
            stop = start + self.size(chunk)
            return Cut(first, start, stop, stop + self.lookahead, is_last=False)
        if ended and frames > start:
            return Cut(first, start, frames, frames, is_last=True)
        return None
