"""From frames in a slot to windows at the outlet, and on to the stream's next segment."""

from __future__ import annotations

import math

from talkahead.audio.windows import Cut
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.engine_telemetry import EngineTelemetry
from talkahead.engine.ledger import Ledger
from talkahead.engine.requests import Window
from talkahead.engine.slot_table import SlotTable
from talkahead.engine.stream import Phase, SentWindow, Speech, Stream, Totals
from talkahead.families.contracts import Frames
from talkahead.types import DRAFTER_NAMES, VERIFIER_NAMES, Stats, StopReason, WindowHeader


class WindowCutter:
    """Sends every window that is ready and may leave, in order.

    Args:
        max_positions: prompt and frames that one slot holds.
        address: of the acknowledgement socket; with 0 a window counts as acknowledged when it is sent.
    """

    def __init__(
        self,
        table: SlotTable,
        ledger: Ledger,
        config: EngineConfig,
        telemetry: EngineTelemetry,
        *,
        max_positions: int,
        address: int,
    ) -> None:
        self._table = table
        self._ledger = ledger
        self._config = config
        self._telemetry = telemetry
        self._max_positions = max_positions
        self._address = address
        self._sequence = 0
        self._steps = config.speech.steps_per_frame

    def advance(self, stream: Stream, now: float) -> None:
        """Send what can be sent; then the slot says at how many frames to come back."""
        while (speech := stream.speech) is not None and stream.is_speaking:
            slot = speech.slot
            if slot is None:
                return
            room = (self._max_positions - len(speech.request.prompt)) // self._steps
            self._pause_when_spoken(speech, slot, room)
            cap = max(self._allowance(stream, speech), 1)
            frames = min(self._frames_in(slot), cap)
            cut = stream.plan.cut(speech.start, stream.chunk, frames, ended=speech.is_spoken or frames == cap)
            stream.is_blocked = cut is not None and not self._may_send(stream, now)
            if cut is None:
                needed = stream.plan.frames_needed(speech.start, stream.chunk)
                self._table.wake_at[slot] = min(needed, cap, room) * self._steps
                return
            if stream.is_blocked:
                return
            self._send(stream, speech, slot, cut, now)
            if cut.is_last:
                self._finish_segment(stream, speech, slot, now)

    def _has_ended(self, slot: int) -> bool:
        return bool(self._table.ended[slot])

    def _may_send(self, stream: Stream, now: float) -> bool:
        config = self._config
        is_ahead = not stream.is_newcomer and stream.deadline - now > config.max_lead_s
        bound = config.max_windows_ahead if is_ahead else config.max_windows
        return len(stream.in_flight) < config.max_windows_per_stream and self._ledger.num_in_flight < bound

    def unblock(self, now: float) -> float:
        """Send what was held back and may leave now; returns when one held back is no longer far ahead."""
        blocked = [stream for stream in self._ledger if stream.is_blocked]
        for stream in sorted(blocked, key=lambda stream: stream.deadline):
            self.advance(stream, now)
        waits = (stream.deadline - self._config.max_lead_s for stream in blocked if stream.is_blocked)
        return min((at for at in waits if at > now), default=math.inf)

    def _pause_when_spoken(self, speech: Speech, slot: int, room: int) -> None:
        """At its end, or where its slot has no room for a frame more, a segment is followed by its pause."""
        drawn = self._frames_in(slot)
        if not speech.is_spoken and (self._has_ended(slot) or drawn >= room):
            speech.is_spoken = True
            spoken, pause = (frames * self._steps for frames in (min(drawn, room), speech.pause_frames))
            self._table.fall_silent(slot, spoken, pause)

    def _frames_in(self, slot: int) -> int:
        """Whole frames of the segment in a slot."""
        return int(self._table.counts[slot]) // self._steps

    def _allowance(self, stream: Stream, speech: Speech) -> int:
        """Frames that max_seconds leaves to this segment, from its beginning."""
        allowed = int(stream.options.max_seconds * self._config.speech.frames_per_s)
        return allowed - (stream.frames_sent - speech.start)

    def _send(self, stream: Stream, speech: Speech, slot: int, cut: Cut, now: float) -> None:
        stream.frames_sent += cut.new
        speech.start = cut.stop
        if cut.is_last:
            stream.spoken_chars = speech.request.header.char_end
            stream.was_cut_short |= not self._has_ended(slot)
            stream.reason = self._reason(stream, speech, slot)
        if stream.reason is not StopReason.RUNNING:
            self._close_rest(stream, speech)
        header = self._header(stream, cut)
        speech.channel.send(Window(header, self._frames(slot, cut), self._stats(stream, speech, slot)))
        self._account(stream, cut.new / self._config.speech.frames_per_s, now)

    def _reason(self, stream: Stream, speech: Speech, slot: int) -> StopReason:
        """Why the stream ends with this segment, or RUNNING when it does not."""
        is_spoken = speech.is_final and self._has_ended(slot)
        if not is_spoken and self._allowance(stream, speech) <= speech.start:
            return StopReason.MAX_SECONDS
        if not speech.is_final:
            return StopReason.RUNNING
        return StopReason.LENGTH if stream.was_cut_short else StopReason.END_OF_SPEECH

    def _close_rest(self, stream: Stream, speech: Speech) -> None:
        """The stream ends here: segments that will not be spoken are closed before its last window leaves."""
        for other in stream.others(speech):
            self._table.release(other)
            other.channel.close()
            del stream.speeches[other.index]

    def _frames(self, slot: int, cut: Cut) -> Frames:
        """Of a window, [W, C]."""
        tokens = self._table.frames[slot, cut.first * self._steps : cut.beyond * self._steps, 0]
        return self._config.tokens.frames(tokens)

    def _header(self, stream: Stream, cut: Cut) -> WindowHeader:
        return WindowHeader(
            address=self._address,
            stream=stream.id,
            generation=stream.generation,
            chunk=stream.chunk,
            sequence=self._sequence,
            context=cut.context,
            new=cut.new,
            lookahead=cut.lookahead,
            last=int(stream.reason is not StopReason.RUNNING),
            reason=int(stream.reason),
            position=cut.start,
        )

    def _stats(self, stream: Stream, speech: Speech, slot: int) -> Stats:
        totals, pair = stream.totals + self._totals(slot), self._table.pair_of(slot)
        return Stats(
            stream=stream.id,
            seed=speech.request.header.seed,
            frames=stream.frames_sent,
            target_steps=totals.target_steps,
            drafted=totals.drafted,
            accepted=totals.accepted,
            pool_size=sum(one.is_speaking for one in self._ledger),
            stop_reason=int(stream.reason),
            char_end=stream.spoken_chars,
            decode_us=totals.decode_us,
            drafter=DRAFTER_NAMES.index(pair.drafter),
            verifier=VERIFIER_NAMES.index(pair.verifier),
        )

    def _totals(self, slot: int) -> Totals:
        steps, drafted, accepted = self._table.totals[slot].tolist()
        return Totals(steps, drafted, accepted, int(self._table.decode_us[slot]))

    def _account(self, stream: Stream, seconds: float, now: float) -> None:
        """A window has left."""
        if stream.is_newcomer:
            self._telemetry.stage("first_window", now - stream.arrived_at)
        if self._address:
            self._ledger.sent(stream, SentWindow(self._sequence, now, seconds))
        else:
            stream.hear(seconds, now)
        stream.chunk += 1
        self._sequence += 1

    def _finish_segment(self, stream: Stream, speech: Speech, slot: int, now: float) -> None:
        """The segment's last window has left: on to the next one, or wait for the last acknowledgements."""
        stream.totals += self._totals(slot)
        self._table.release(speech)
        if stream.reason is not StopReason.RUNNING:
            stream.phase = Phase.DRAINING
            self._ledger.settle(stream, now)
            return
        speech.channel.close()
        self._ledger.go_on(stream, now)
