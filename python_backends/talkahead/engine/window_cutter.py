"""From frames in a slot to windows at the outlet, and on to the stream's next segment."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from talkahead.drafting.drafters import drafter_names
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.engine_telemetry import EngineTelemetry
from talkahead.engine.in_flight import SentWindow
from talkahead.engine.requests import Window
from talkahead.engine.slot_table import SlotTable
from talkahead.engine.stream import SegmentState, Stream, Totals
from talkahead.engine.streams import Streams
from talkahead.engine.windows import Cut
from talkahead.engine.word_times import whole_segment, words_within
from talkahead.families.contracts import NO_WORDS, Words
from talkahead.speculation.verifiers import VERIFIERS
from talkahead.transport.messages import WindowDone
from talkahead.types import Stats, StopReason, WindowHeader


class WindowCutter:
    """Sends every window that is ready and may leave, in order.

    Args:
        max_positions: prompt and frames that one slot holds.
        address: of the acknowledgement socket; with 0 a window counts as acknowledged when it is sent.
    """

    def __init__(
        self,
        table: SlotTable,
        streams: Streams,
        config: EngineConfig,
        telemetry: EngineTelemetry,
        *,
        max_positions: int,
        address: int,
    ) -> None:
        self._table = table
        self._streams = streams
        self._config = config
        self._telemetry = telemetry
        self._max_positions = max_positions
        self._address = address
        self._sequence = 0
        self._steps, self._joins_segments = config.speech.steps_per_frame, config.speech.joins_segments

    def advance(self, stream: Stream, now: float) -> None:
        """Send what can be sent; then the slot says at how many frames to come back."""
        while (segment := stream.segment) is not None and stream.is_speaking:
            slot = segment.slot
            if slot is None:
                return
            room = (self._max_positions - segment.num_prompt) // self._steps
            self._pause_when_spoken(segment, slot, room)
            cap = max(self._allowance(segment), 1)
            frames = min(self._frames_in(slot), cap)
            chunk, ended = stream.chunk, segment.is_spoken or frames == cap
            cut = stream.plan.cut(segment.start, chunk, frames, ended)
            if cut is None:
                needed = stream.plan.frames_needed(segment.start, chunk)
                self._table.wake(slot, min(needed, cap, room) * self._steps)
                return
            if not self._may_send(stream, now):
                stream.block()
                return
            self._send(segment, slot, cut, now)

    def _has_ended(self, slot: int) -> bool:
        return bool(self._table.ended[slot])

    def _may_send(self, stream: Stream, now: float) -> bool:
        config = self._config
        is_ahead = not stream.is_newcomer and stream.deadline - now > config.max_lead_s
        bound = config.max_windows_ahead if is_ahead else config.max_windows
        return len(stream.in_flight) < config.max_windows_per_stream and self._streams.num_in_flight < bound

    def unblock(self, now: float) -> float:
        """Send what was held back and may leave now; returns when one held back is no longer far ahead."""
        blocked = [stream for stream in self._streams if stream.is_blocked]
        for stream in sorted(blocked, key=lambda stream: stream.deadline):
            self.advance(stream, now)
        waits = (stream.deadline - self._config.max_lead_s for stream in blocked if stream.is_blocked)
        return min((at for at in waits if at > now), default=math.inf)

    def _pause_when_spoken(self, segment: SegmentState, slot: int, room: int) -> None:
        """At its end, or where its slot has no room for a frame more, a segment is followed by its pause."""
        drawn = self._frames_in(slot)
        if not segment.is_spoken and (self._has_ended(slot) or drawn >= room):
            spoken = min(drawn, room)
            segment.mark_spoken(spoken, self._table.frames[slot, : spoken * self._steps, 0])
            # One that ended before its speech began has silence to be heard: no last window is empty.
            pause = max(segment.pause_frames, segment.stream.plan.unheard + 1 - spoken)
            self._table.fall_silent(slot, spoken * self._steps, pause * self._steps)

    def _frames_in(self, slot: int) -> int:
        """Whole frames of the segment in a slot."""
        return int(self._table.counts[slot]) // self._steps

    def _allowance(self, segment: SegmentState) -> int:
        """Frames that max_seconds leaves to this segment, from its beginning."""
        stream = segment.stream
        allowed = int(stream.options.max_seconds * self._frames_per_s(stream))
        return allowed - (stream.frames_sent - segment.start)

    def _frames_per_s(self, stream: Stream) -> float:
        """As they are heard."""
        return stream.options.speed * self._config.speech.frames_per_s

    def _send(self, segment: SegmentState, slot: int, cut: Cut, now: float) -> None:
        stream, reason = segment.stream, self._reason(segment, slot, cut)
        if reason is not StopReason.RUNNING:
            # Segments that will not be spoken are closed before the last window leaves.
            for other in stream.close_others():
                self._table.release(other)
        before, tokens = 0, self._table.frames[slot, cut.first * self._steps : cut.beyond * self._steps, 0]
        if self._joins_segments:
            heard = self._before(segment, cut)
            before, tokens = len(heard) // self._steps, np.concatenate([heard, tokens])
        frames, stats = self._config.tokens.frames(tokens), self._stats(segment, slot, cut, reason)
        header = self._header(stream, cut, reason, before)
        segment.channel.send(Window(header, frames, stats, self._words(segment, slot, cut)))
        self._account(segment, cut, now)
        if cut.is_last:
            self._finish_segment(segment, slot, cut, reason, now)

    def _reason(self, segment: SegmentState, slot: int, cut: Cut) -> StopReason:
        """Why the stream ends with this window, or RUNNING when it does not."""
        has_ended = self._has_ended(slot)
        is_spoken = segment.is_final and has_ended
        if cut.is_last and not is_spoken and self._allowance(segment) <= cut.stop:
            return StopReason.MAX_SECONDS
        if not (cut.is_last and segment.is_final):
            return StopReason.RUNNING
        was_cut_short = segment.stream.totals.was_cut_short or not has_ended
        return StopReason.LENGTH if was_cut_short else StopReason.END_OF_SPEECH

    def _before(self, segment: SegmentState, cut: Cut) -> npt.NDArray[np.int32]:
        """Tokens of the frames before a segment that the context of its first windows still reaches, [S]."""
        heard = segment.request.history if segment.index == 0 else segment.stream.before
        return _last(heard.astype(np.int32), (segment.stream.plan.context - cut.context) * self._steps)

    def _words(self, segment: SegmentState, slot: int, cut: Cut) -> Words:
        """Those that begin in a window; where nobody knows, the segment in its first one."""
        request, unheard = segment.request, segment.stream.plan.unheard
        if len(request.words):
            drawn = self._frames_in(slot) if segment.spoken_frames is None else segment.spoken_frames
            before = segment.num_prompt - 1  # the position that the first frame is drawn from
            aligned = self._table.aligned(slot, before, before + min(cut.stop + 1, drawn) * self._steps)
            if aligned is not None:
                return words_within(request.words, aligned[:: self._steps], cut, unheard)
        if cut.start > unheard:
            return NO_WORDS
        return whole_segment(request.header.char_start, request.header.char_end)

    def _header(self, stream: Stream, cut: Cut, reason: StopReason, before: int) -> WindowHeader:
        """`before`: frames of what was spoken before the segment."""
        return WindowHeader(
            address=self._address,
            stream=stream.id,
            generation=stream.generation,
            chunk=stream.chunk,
            sequence=self._sequence,
            context=before + cut.context,
            new=cut.new,
            lookahead=cut.lookahead,
            last=int(reason is not StopReason.RUNNING),
            reason=int(reason),
            position=cut.start - stream.plan.unheard,
            speed=round(1_000 * stream.options.speed),
            voice=stream.voice,
        )

    def _stats(self, segment: SegmentState, slot: int, cut: Cut, reason: StopReason) -> Stats:
        stream, pair = segment.stream, self._table.pair_of(slot)
        totals = stream.totals + self._totals(segment, slot)
        return Stats(
            stream=stream.id,
            seed=segment.request.header.seed,
            frames=stream.frames_sent + cut.new,
            target_steps=totals.target_steps,
            drafted=totals.drafted,
            accepted=totals.accepted,
            pool_size=sum(one.is_speaking for one in self._streams),
            stop_reason=int(reason),
            char_end=totals.char_end if cut.is_last else stream.totals.char_end,
            decode_us=totals.decode_us,
            drafter=drafter_names().index(pair.drafter),
            verifier=list(VERIFIERS).index(pair.verifier),
        )

    def _totals(self, segment: SegmentState, slot: int) -> Totals:
        steps, drafted, accepted = self._table.totals[slot].tolist()
        char_end, was_cut_short = segment.request.header.char_end, not self._has_ended(slot)
        return Totals(char_end, was_cut_short, steps, drafted, accepted, int(self._table.decode_us[slot]))

    def _account(self, segment: SegmentState, cut: Cut, now: float) -> None:
        """A window leaves."""
        stream = segment.stream
        if stream.is_newcomer:
            self._telemetry.stage("first_window", now - stream.arrived_at)
        chunk, seconds = stream.chunk, cut.new / self._frames_per_s(stream)
        self._streams.send(segment, cut, SentWindow(self._sequence, now, seconds))
        self._sequence += 1
        if not self._address:
            self._streams.acknowledge(WindowDone(stream.id, stream.generation, chunk), now)

    def _finish_segment(
        self, segment: SegmentState, slot: int, cut: Cut, reason: StopReason, now: float
    ) -> None:
        """The segment's last window has left: on to the next one, or wait for the last acknowledgements."""
        stream, totals = segment.stream, self._totals(segment, slot)
        heard = stream.before
        if self._joins_segments:
            own = self._table.frames[slot, : self._frames_in(slot) * self._steps, 0]
            heard = _last(
                np.concatenate([self._before(segment, cut), own]), stream.plan.context * self._steps
            )
        self._table.release(segment)
        if reason is StopReason.RUNNING:
            stream.finish_segment(totals, heard, now)
            self._streams.report_progress(stream)
        else:
            stream.drain(reason)
            self._streams.settle(stream, now)


def _last(tokens: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int32]:
    """At most so many."""
    return tokens[max(len(tokens) - count, 0) :]
