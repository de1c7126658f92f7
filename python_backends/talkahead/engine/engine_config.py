"""Limits and waits of the engine, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from talkahead.families.contracts import TokenMap
from talkahead.speech_format import SpeechFormat


@dataclass(frozen=True)
class EngineConfig:
    """How many streams, how far ahead, how long to wait. Durations in seconds.

    Args:
        speech: rates and sizes of what is spoken.
        tokens: what the talker's tokens are as frames.
        rows: what the talker is given of its own tokens int64 [S], float32 [S, D], where segments go on from
            what their stream's first one said; None: none does.
        max_pause_s: the longest pause that a segment may ask for.
        max_step_rows: streams decoded in one step, earliest deadlines first (0: as many as there are slots).
        max_pending: streams that may wait for a slot; one more is refused at once.
        max_wait_s: a stream is refused whose first chunk is predicted to come later than that, at urgency 2
            (3: half; 1: none is; 0: none at all).
        min_pace, late_after_s: where a listener has waited so long in all for speech to go on, a stream is
            refused that would get fewer seconds of speech a second (0: none is).
        max_prefill_rows, max_prefill_s: what prompts between two steps may be and take, so that those who
            play do not wait for a crowd that arrives, or for a large talker to read a long reference. A
            prompt that would take longer is read in parts, where the backbone can: the smaller they are, the
            more often weights are read for them.
        max_windows_per_stream, max_windows: windows sent and not acknowledged, of one stream and of all.
        max_windows_ahead: the bound over all streams for one that has more than `max_lead_s` in hand: the
            vocoder works in order of arrival, and a first window should not find a long queue.
        first_chunk_limit_s: a newcomer's deadline after its arrival, at urgency 2 (1: twice, 3: half).
        max_lead_s: a stream with more acknowledged audio in hand than this keeps no newcomer out of a step's
            rows; and it is parked while others begin, where no more are open than a step decodes (than
            half a step, where each slot has its row).
        idle_timeout_s: a stream whose windows the vocoder does not come to for this long is given up, with an
            error: its client has left, or the vocoder is held up.
        patience: but what the vocoder is at work on may take this many times as long as it was measured to.
        vanished_after: so many later windows of others acknowledged, and its own not: the client has left.
        vanished_grace_s: but its window is at least this old before that counts.
        settle_s: pause between the last acknowledgement and an error response. The vocoder acknowledges when
            it has answered; Triton forwards the answer a moment later, and an error must not overtake it.
        segment_timeout_s: wait for a stream's next segment, from the frontend.
    """

    speech: SpeechFormat
    tokens: TokenMap
    rows: Callable[[npt.NDArray[np.int64]], Tensor] | None = None
    max_pause_s: float = 2.0
    max_step_rows: int = 0
    max_pending: int = 64
    max_wait_s: float = 0.0
    min_pace: float = 0.0
    late_after_s: float = 0.5
    max_prefill_rows: int = 512
    max_prefill_s: float = 0.3
    max_windows_per_stream: int = 3
    max_windows: int = 64
    max_windows_ahead: int = 4
    first_chunk_limit_s: float = 0.1
    max_lead_s: float = 1.0
    idle_timeout_s: float = 2.0
    patience: float = 5.0
    vanished_after: int = 32
    vanished_grace_s: float = 0.5
    settle_s: float = 0.05
    segment_timeout_s: float = 5.0

    @property
    def max_pause_frames(self) -> int:
        return self.speech.frames(self.max_pause_s)
