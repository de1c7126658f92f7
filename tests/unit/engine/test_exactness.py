"""In float64 a stream's tokens are the same alone, among neighbours, under joins, leaves and parking."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import DecodeStep
from talkahead.engine.emitter import Channel
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.engine_telemetry import NoTelemetry
from talkahead.engine.native_steps import Bell
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_loop import TalkerLoop
from talkahead.speculation.contracts import Accepted, Context, Drafter, Scored, Verifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree, TreeShape
from talkahead.transport.messages import WindowDone
from talkahead.types import SegmentHeader
from talker_fakes import CONFIG, Outlet

WIDTH, VOCABULARY, STREAMS, SEGMENTS = 32, 40, 16, 2
POSITIONS = 36
"""Of a slot: a segment of which the end of speech is not drawn is cut there."""


@pytest.fixture(scope="module")
def llama() -> Llama:
    torch.manual_seed(3)
    llama = (
        Llama(DecoderConfig(VOCABULARY, VOCABULARY - 1, WIDTH, 48, 2, 2, 1, 16))
        .double()
        .requires_grad_(False)
    )
    for value in llama.parameters():
        value.mul_(6.0)
    return llama


def _never(window: Window, failure: Exception) -> None:
    raise failure


@dataclass(frozen=True)
class Utterance:
    """One stream: a prompt per segment, its seed and its sampling."""

    stream: int
    prompts: tuple[np.ndarray, ...]
    seed: int
    options: RequestOptions


def make_utterances(temperature: float) -> list[Utterance]:
    generator = np.random.default_rng(0)
    options = RequestOptions(temperature=temperature, top_p=0.95)
    return [
        Utterance(
            stream,
            tuple(generator.standard_normal((int(length), WIDTH), dtype=np.float32) for length in lengths),
            seed=stream * 31,
            options=replace(options, top_k=5 * (stream % 3), chunk_frames=3 + stream % 9),
        )
        for stream, lengths in enumerate(generator.integers(2, POSITIONS // 2, (STREAMS, SEGMENTS)))
    ]


class Stage:
    """A loop over a real decoder, with a vocoder that answers what it is asked to."""

    def __init__(
        self,
        llama: Llama,
        num_slots: int,
        config: EngineConfig,
        drafter: Drafter | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        state = llama.state_dict()
        backbone = SlotDecoder(
            llama.config,
            state,
            num_slots=num_slots,
            max_positions=POSITIONS,
            max_nodes=9,
            dtype=torch.float64,
        )
        step = DecodeStep(backbone, drafter or NullDrafter(), verifier or MatchVerifier())
        self.now = 0.0
        self.outlets: dict[int, list[Outlet]] = {}
        self._num_answered: dict[int, int] = {}
        self.loop = TalkerLoop(
            backbone,
            step,
            config,
            clock=lambda: self.now,
            telemetry=NoTelemetry(),
            bell=Bell(),
            address=1,
            report_progress=lambda address, progress: None,
            tell_waits=lambda waits: None,
            log=print,
        )

    def submit(self, utterance: Utterance) -> None:
        outlets = self.outlets[utterance.stream] = [Outlet() for _ in utterance.prompts]
        self._num_answered[utterance.stream] = 0
        for index, (prompt, outlet) in enumerate(zip(utterance.prompts, outlets, strict=True)):
            last = int(index == len(outlets) - 1)
            header = SegmentHeader(utterance.stream, index, last, 0, 0, utterance.seed)
            request = SegmentRequest(header, prompt, utterance.options, "", outlet)
            self.loop.submit(request, Channel(outlet, lambda job: job(), _never, print))

    def answer(self, stream: int) -> bool:
        windows = [window.header for outlet in self.outlets[stream] for window in outlet.windows]
        fresh = windows[self._num_answered[stream] :]
        for header in fresh:
            self.loop.acknowledge(WindowDone(stream, header.generation, header.chunk))
        self._num_answered[stream] = len(windows)
        return bool(fresh)

    def finish(self) -> None:
        busy = True
        while busy:
            while self.loop.turn() == 0.0:
                pass
            busy = any([self.answer(stream) for stream in self.outlets])

    def tokens(self, stream: int) -> list[list[int]]:
        assert all(outlet.end == "closed" for outlet in self.outlets[stream])
        return [outlet.tokens for outlet in self.outlets[stream]]


def alone(llama: Llama, utterances: list[Utterance]) -> list[list[list[int]]]:
    spoken = []
    for utterance in utterances:
        stage = Stage(llama, 2, CONFIG)
        stage.submit(utterance)
        stage.finish()
        spoken.append(stage.tokens(utterance.stream))
    return spoken


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "sampled"])
def test_tokens_do_not_depend_on_company(llama: Llama, temperature: float) -> None:
    utterances = make_utterances(temperature)
    expected = alone(llama, utterances)
    assert len({str(tokens) for tokens in expected}) == STREAMS
    assert len({len(segment) for tokens in expected for segment in tokens}) > STREAMS // 2

    together = Stage(llama, 2 * STREAMS, CONFIG)
    for utterance in utterances:
        together.submit(utterance)
    together.finish()
    assert [together.tokens(stream) for stream in range(STREAMS)] == expected

    for trial in range(3):
        assert in_disorder(llama, utterances, trial) == expected


def in_disorder(llama: Llama, utterances: list[Utterance], seed: int) -> list[list[list[int]]]:
    """Few slots, fewer rows a step, streams that join, leave half-way and are parked at random."""
    chance = random.Random(seed)
    patient = replace(CONFIG, idle_timeout_s=1e6, vanished_after=10**6)  # this vocoder answers as it likes
    config = replace(patient, max_step_rows=3, max_lead_s=0.05, max_pending=99)
    stage = Stage(llama, 5, config)
    for utterance in chance.sample(utterances, len(utterances)):
        stage.submit(utterance)
        guest = replace(utterance, stream=1000 + utterance.stream)
        stage.submit(guest)
        for _ in range(chance.randrange(25)):
            stage.now += chance.random() * 0.02
            if stage.loop.turn() > 0.0 or chance.random() < 0.3:
                stage.answer(chance.choice(list(stage.outlets)))
        stage.loop.cancel(guest.stream, None)
    stage.finish()
    return [stage.tokens(utterance.stream) for utterance in utterances]


class GuessingDrafter(NullDrafter):
    """Guesses at random: eight tokens after the root, of which some are right."""

    def __init__(self) -> None:
        self.shape = TreeShape((-1, 0, 0, 0, 0, 0, 0, 1, 1))
        self.generator = torch.Generator().manual_seed(0)

    def propose(self, context: Context) -> TokenTree:
        guesses = torch.randint(VOCABULARY, (len(context.roots), 8, 1), generator=self.generator)
        return TokenTree(torch.cat([context.roots[:, None], guesses], dim=1), self.shape)


class RememberingVerifier(MatchVerifier):
    """Looks back: what it is shown must be what was accepted so far."""

    history_frames = POSITIONS

    def __init__(self) -> None:
        self.spoken: dict[int, list[int]] = {}

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        accepted = super().accept(tree, scored, context)
        for row, (key, position) in enumerate(
            zip(context.keys.tolist(), context.positions.tolist(), strict=True)
        ):
            spoken = self.spoken.setdefault(key, context.roots[row].tolist())
            assert context.frames[row, : position + 1, 0].tolist() == spoken
            spoken += tree.tokens[row, accepted.path[row, 1 : int(accepted.counts[row])], 0].tolist()
            spoken += accepted.next_roots[row].tolist()
        return accepted

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> None:
        """None: it is Python."""
        return None


@pytest.mark.parametrize("drafter", [None, "guessing"])
def test_verifiers_see_the_history(llama: Llama, drafter: str | None) -> None:
    verifier = RememberingVerifier()
    stage = Stage(
        llama,
        4,
        replace(CONFIG, max_step_rows=3, max_lead_s=0.05),
        GuessingDrafter() if drafter else None,
        verifier,
    )
    for utterance in make_utterances(0.9)[:6]:
        stage.submit(utterance)
    stage.finish()
    assert len(verifier.spoken) == 6 * SEGMENTS


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "sampled"])
def test_drafts_change_no_token_whatever_the_company(llama: Llama, temperature: float) -> None:
    utterances = make_utterances(temperature)
    stage = Stage(llama, 5, replace(CONFIG, max_step_rows=3, max_lead_s=0.05), GuessingDrafter())
    for utterance in utterances:
        stage.submit(utterance)
    stage.finish()
    assert [stage.tokens(utterance.stream) for utterance in utterances] == alone(llama, utterances)
    stats = [stage.outlets[stream][-1].windows[-1].stats for stream in range(STREAMS)]
    assert sum(one.accepted for one in stats) > STREAMS
    assert all(one.drafted == 8 * one.target_steps for one in stats)
    assert all(one.frames <= one.target_steps + one.accepted + SEGMENTS for one in stats)


def test_a_seed_speaks_the_same_again_and_another_does_not(llama: Llama) -> None:
    utterances = make_utterances(0.9)[:4]
    first = alone(llama, utterances)
    assert first == alone(llama, utterances)
    others = [replace(utterance, seed=utterance.seed + 1) for utterance in utterances]
    assert all(one != other for one, other in zip(first, alone(llama, others), strict=True))


def test_segments_of_one_stream_do_not_share_their_noise(llama: Llama) -> None:
    (utterance, *_) = make_utterances(0.9)
    same_prompts = replace(utterance, prompts=(utterance.prompts[0],) * 2)
    first, second = alone(llama, [same_prompts])[0]
    assert first[: len(second)] != second
