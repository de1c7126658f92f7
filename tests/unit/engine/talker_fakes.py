"""A backbone that speaks by script, outlets that remember, and a rig that drives the loop turn by turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import DecodeStep
from talkahead.engine.emitter import Channel
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.engine_telemetry import NoTelemetry
from talkahead.engine.native_steps import Bell
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_loop import TalkerLoop
from talkahead.errors import TalkaheadError
from talkahead.families.code_tokens import CodeTokens
from talkahead.speculation.contracts import Accepted, Scored
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape
from talkahead.speech_format import SpeechFormat
from talkahead.transport.messages import StreamProgress, Waits, WindowDone
from talkahead.types import Ending, SegmentHeader, StopReason, StreamAccount, WindowHeader
from torch import Tensor

VOICES = 64
FRAME_LIMIT = 100
EOS = VOICES * 8
FRONTEND = 77
"""Where streams come from."""
SILENCE = EOS - 1
"""A code that no script has."""
SPEECH = SpeechFormat(
    family="scripted",
    sample_rate_hz=16_000,
    hop=320,
    codebooks=(EOS,),
    context_frames=5,
    lookahead_frames=2,
    silence=(SILENCE,),
    max_positions=FRAME_LIMIT + 8,
    segment_positions=FRAME_LIMIT + 8,
)
CONFIG = EngineConfig(SPEECH, CodeTokens(SPEECH.codebooks), first_chunk_limit_s=0.1)


def script(voice: int, frames: int) -> list[int]:
    """The tokens of a segment: they tell the voice and count modulo 8."""
    return [voice * 8 + index % 8 for index in range(frames)]


class ScriptedBackbone:
    """Prompt row 0 holds (voice, frames): after `frames` tokens of `script` comes the end of speech."""

    vocab_size = EOS + 1
    hidden_size = 4
    eos = EOS
    dtype = torch.float32
    device = torch.device("cpu")

    def __init__(self, num_slots: int, max_positions: int = FRAME_LIMIT + 8) -> None:
        self.num_slots = num_slots
        self.max_positions = max_positions
        self.spoken = torch.zeros(num_slots, dtype=torch.int64)
        self.scripts = torch.zeros((num_slots, 2), dtype=torch.int64)
        self.prefills: list[int] = []
        self.parts: list[int] = []
        """Rows of prompts that were read in parts."""
        self.on_rows: Callable[[int], None] = lambda count: None
        self.steps: list[Rows] = []
        self.on_step: Callable[[], None] = lambda: None

    def prefill(
        self, slots: list[int], prompts: Tensor, lengths: list[int], *, all_hidden: bool = False
    ) -> Scored:
        self.prefills.append(len(slots))
        self.on_rows(sum(lengths))
        self.scripts[slots] = prompts[:, 0, :2].long()
        self.spoken[slots] = 0
        return self._scored(torch.tensor(slots))

    def read_on(self, slot: int, rows: Tensor, before: int) -> Scored:
        self.parts.append(len(rows))
        self.on_rows(len(rows))
        if not before:
            self.scripts[slot] = rows[0, :2].long()
        self.spoken[slot] = 0
        scored = self._scored(torch.tensor([slot]))
        return Scored(scored.logits, torch.zeros(1, len(rows), 4))

    def score(self, tree: TokenTree, rows: Rows) -> Scored:
        self.on_step()
        self.steps.append(rows)
        slots = rows.slots
        expected = self.scripts[slots, 0] * 8 + self.spoken[slots] % 8
        assert torch.equal(tree.ids[:, 0], expected), "another stream's token"
        self.spoken[slots] += 1
        return self._scored(slots)

    def _scored(self, slots: Tensor) -> Scored:
        voice, frames = self.scripts[slots].T
        token = torch.where(self.spoken[slots] >= frames, EOS, voice * 8 + self.spoken[slots] % 8)
        fallback = voice * 8  # what is spoken where the end is not allowed
        logits = torch.full((len(slots), 1, self.vocab_size), -50.0)
        lines = torch.arange(len(slots))
        logits[lines, 0, fallback] = 0.0
        logits[lines, 0, token] = 50.0
        return Scored(logits, torch.zeros(len(slots), 1, 4))

    def commit(self, accepted: Accepted, shape: TreeShape, rows: Rows) -> None:
        return None

    def aligned(self, slot: int, first: int, beyond: int) -> None:
        return None

    def release(self, slot: int) -> None:
        self.spoken[slot] = -1


@dataclass
class Outlet:
    """Remembers its windows and how it ended; `breaks_at` makes the call with that window raise."""

    log: list[tuple[str, Outlet]] = field(default_factory=list)
    breaks_at: int = -1
    windows: list[Window] = field(default_factory=list)
    end: TalkaheadError | str | None = None

    def send(self, window: Window) -> None:
        assert self.end is None
        if len(self.windows) == self.breaks_at:
            raise MemoryError("no shared memory")
        self.windows.append(window)
        self.log.append(("send", self))

    def close(self) -> None:
        self._end("closed")

    def fail(self, error: TalkaheadError) -> None:
        self._end(error)

    def _end(self, how: TalkaheadError | str) -> None:
        assert self.end is None, "ended twice"
        self.end = how
        self.log.append(("end", self))

    @property
    def error(self) -> TalkaheadError:
        assert isinstance(self.end, TalkaheadError), self.end
        return self.end

    @property
    def tokens(self) -> list[int]:
        """The new frames of all windows."""
        spoken: list[int] = []
        for window in self.windows:
            header = window.header
            spoken += window.frames[header.context : header.context + header.new, 0].tolist()
        return spoken

    @property
    def reason(self) -> StopReason:
        return StopReason(self.windows[-1].header.reason)


class _Telemetry(NoTelemetry):
    """Keeps what listeners got, how streams ended, and who was late."""

    def __init__(self) -> None:
        self.heard_chunks: list[tuple[float, float | None]] = []
        self.endings: list[Ending] = []
        self.accounts: list[StreamAccount] = []
        self.lates: list[tuple[str, float]] = []

    def heard(self, seconds: float, first_chunk_s: float | None) -> None:
        self.heard_chunks.append((seconds, first_chunk_s))

    def ended(self, account: StreamAccount) -> None:
        self.endings.append(account.ending)
        self.accounts.append(account)

    def late(self, stream: str, seconds: float) -> None:
        self.lates.append((stream, seconds))


class Rig:
    """The loop over a scripted backbone, a clock set by hand, and a vocoder that answers when told to."""

    def __init__(self, num_slots: int = 8, config: EngineConfig = CONFIG, address: int = 1) -> None:
        self.now = 100.0
        self.backbone = ScriptedBackbone(num_slots)
        self.log: list[tuple[str, Outlet]] = []
        self.outlets: list[Outlet] = []
        self.answered: set[tuple[int, int, int]] = set()
        self.progress: list[StreamProgress] = []
        self.waits: list[Waits] = []
        self.logged: list[str] = []
        telemetry = _Telemetry()
        self.late, self.heard, self.endings = telemetry.lates, telemetry.heard_chunks, telemetry.endings
        self.accounts = telemetry.accounts
        self._losses: list[tuple[WindowHeader, str]] = []
        self.loop = TalkerLoop(
            self.backbone,
            DecodeStep(self.backbone, NullDrafter(), MatchVerifier()),
            config,
            clock=lambda: self.now,
            telemetry=telemetry,
            bell=Bell(),
            address=address,
            report_progress=self._take_progress,
            tell_waits=self.waits.append,
            log=self.logged.append,
        )

    def submit(
        self,
        stream: int,
        frames: int,
        *,
        segment: int = 0,
        last: bool = True,
        pause: int = 0,
        asked_us: int = 0,
        recall: int = 0,
        request_id: str = "",
        breaks_at: int = -1,
        rows: int = 3,
        **options: object,
    ) -> Outlet:
        """One segment whose voice is its stream's id."""
        outlet = Outlet(self.log, breaks_at)
        self.outlets.append(outlet)
        prompt = np.zeros((rows + segment, 4), dtype=np.float32)
        prompt[0, :2] = stream % VOICES, frames
        header = SegmentHeader(
            stream,
            segment,
            int(last),
            segment * 10,
            segment * 10 + 9,
            seed=7,
            pause_frames=pause,
            frontend=FRONTEND,
            asked_us=asked_us,
            recall=recall,
        )
        chosen = RequestOptions.from_parameters({"temperature": 0.0, **options})  # type: ignore[dict-item]
        channel = Channel(outlet, lambda job: job(), self._lose, self.logged.append)
        self.loop.submit(SegmentRequest(header, prompt, chosen, request_id, outlet), channel)
        self._tell_losses()
        return outlet

    def _lose(self, window: Window, failure: Exception) -> None:
        self._losses.append((window.header, str(failure)))

    def _take_progress(self, address: int, progress: StreamProgress) -> None:
        assert address == FRONTEND
        self.progress.append(progress)

    def run(self, turns: int = 10_000) -> float:
        """Turn until there is nothing to do (or so many turns); returns the wait that the loop asks for."""
        for _ in range(turns):
            wait_s = self.loop.turn()
            self._tell_losses()
            if wait_s > 0:
                return wait_s
        return 0.0

    def _tell_losses(self) -> None:
        while self._losses:
            self.loop.lose(*self._losses.pop(0))

    def answer(self, outlet: Outlet | None = None, ok: bool = True) -> bool:
        """Acknowledge what has been sent and not been answered; whether there was anything."""
        sent = [window.header for one in ([outlet] if outlet else self.outlets) for window in one.windows]
        news = [
            header
            for header in sorted(sent, key=lambda header: header.sequence)
            if (header.stream, header.generation, header.chunk) not in self.answered
        ]
        for header in news:
            self.answered.add((header.stream, header.generation, header.chunk))
            self.loop.acknowledge(WindowDone(header.stream, header.generation, header.chunk, ok))
            self._tell_losses()
        return bool(news)

    def done(self, header: WindowHeader) -> WindowDone:
        """The acknowledgement of a window, counted as answered."""
        self.answered.add((header.stream, header.generation, header.chunk))
        return WindowDone(header.stream, header.generation, header.chunk)

    def finish(self) -> None:
        """Run and answer until every stream is done."""
        self.run()
        while self.answer():
            self.run()
        self.advance(CONFIG.settle_s)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.loop.look_at_clock()
        self.run()

    def assert_empty(self) -> None:
        """No stream, no slot, nothing in flight, and nothing to wait for."""
        assert self.run() == math.inf
        load = self.loop.load
        assert (load.active, load.queued, load.open_streams) == (0, 0, 0)
        assert self.loop.num_free_slots == self.backbone.num_slots
        assert self.loop.num_windows_in_flight == 0
