"""Speed in pairs, where the time goes, and a verifier that lets everything pass."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.config import RequestOptions
from talkahead.draft_training.draft_shape import first_layers
from talkahead.draft_training.own_speech import Utterance, speak
from talkahead.drafting.draft_lm_kind import draft_lm_drafter
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.speculation.contracts import Context, Scored, Verifier
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings, draw
from talkahead.speculation.token_tree import TokenTree, TreeShape

from perf.speculation.accept_all import AcceptAllVerifier
from perf.speculation.speed import Run, Speed, StepInParts, Stopwatch, TimedStep

CONFIG = DecoderConfig(24, 23, 16, 16, 2, 1, 1, 16)
ROWS, VOCABULARY = 3, 11


def _context() -> Context:
    zeros = torch.zeros(ROWS, dtype=torch.float64)
    positions = torch.tensor([4, 0, 7])
    return Context(
        rows=Rows.of(range(ROWS)),
        roots=torch.zeros((ROWS, 1), dtype=torch.int64),
        positions=positions,
        hidden=torch.zeros(ROWS, 2),
        frames=torch.zeros((ROWS, 9, 1), dtype=torch.int64),
        keys=stream_keys(positions, positions),
        settings=SamplingSettings.of(zeros + 1.0, positions * 0, zeros + 1.0),
    )


def _scored(nodes: int) -> Scored:
    generator = torch.Generator().manual_seed(0)
    return Scored(torch.randn(ROWS, nodes, VOCABULARY, generator=generator), torch.zeros(ROWS, nodes, 2))


def test_accept_all_speaks_the_whole_chain_and_draws_behind_it() -> None:
    context, scored = _context(), _scored(4)
    tree = TokenTree(torch.zeros((ROWS, 4, 1), dtype=torch.int64), TreeShape((-1, 0, 1, 2)))
    accepted = AcceptAllVerifier().accept(tree, scored, context)
    assert accepted.counts.tolist() == [4] * ROWS
    assert accepted.path.tolist() == [[0, 1, 2, 3]] * ROWS
    after = context.positions[:, None] + 4
    wanted = draw(scored.logits[:, 3:], context.settings, context.keys, after)
    assert torch.equal(accepted.next_roots, wanted)


def test_accept_all_without_a_draft_is_plain_decoding() -> None:
    context, scored = _context(), _scored(1)
    accepted = AcceptAllVerifier().accept(TokenTree(context.roots[:, None]), scored, context)
    plain = MatchVerifier().accept(TokenTree(context.roots[:, None]), scored, context)
    assert torch.equal(accepted.next_roots, plain.next_roots) and torch.equal(accepted.counts, plain.counts)


def test_of_a_tree_not_everything_can_be_spoken() -> None:
    tree = TokenTree(torch.zeros((ROWS, 3, 1), dtype=torch.int64), TreeShape((-1, 0, 0)))
    with pytest.raises(ValueError, match="needs a chain"):
        AcceptAllVerifier().accept(tree, _scored(3), _context())


def _speak(watch: Stopwatch | None, verifier: Verifier, step: type[TimedStep] = TimedStep) -> list[Utterance]:
    torch.manual_seed(0)
    talker = Llama(CONFIG).eval().requires_grad_(False)
    for weight in talker.parameters():
        weight.copy_((weight * 6).bfloat16())
    decoder = NativeDecoder(CONFIG, talker.state_dict(), num_slots=2, max_positions=30, max_nodes=4)
    pool = DraftPool(2, 30)
    drafter = draft_lm_drafter(first_layers(talker, 1), pool, DraftOptions(3))
    prompts = list(torch.randn(5, 3, 16, generator=torch.Generator().manual_seed(1)))
    sampling = RequestOptions(temperature=0.7)
    if watch is None:
        return speak(decoder, drafter, verifier, prompts, sampling, 3)
    return speak(decoder, drafter, verifier, prompts, sampling, 3, partial(step, watch))


def test_taking_the_time_changes_nothing_and_counts_every_step() -> None:
    plain = _speak(None, MatchVerifier())
    for step in (TimedStep, StepInParts):
        watch = Stopwatch()
        timed = _speak(watch, MatchVerifier(), step)
        assert [one.tokens for one in timed] == [one.tokens for one in plain]
        assert watch.row_steps == sum(one.steps for one in timed)
        assert watch.steps_s > 0 and watch.prompts_s > 0
        assert (0 < watch.drafts_s < watch.steps_s) is (step is StepInParts)


def test_everything_accepted_takes_a_third_of_the_steps() -> None:
    for one in _speak(None, AcceptAllVerifier()):
        assert one.steps == -(-(len(one.tokens) - 1) // 3)


def _run(cpu_s: float, row_steps: int, prompts_s: float = 0.0, drafts_s: float = 0.0) -> Run:
    steps_s = cpu_s - prompts_s
    return Run(1000, 1000, row_steps, cpu_s, 2 * cpu_s, prompts_s, steps_s, drafts_s)


def test_speed_is_compared_within_each_repeat() -> None:
    """The second repeat ran on a machine half as fast."""
    plain, own = (
        (_run(1.0, 1000), _run(2.0, 1000)),
        (_run(0.5, 400), _run(1.0, 400)),
    )
    speed = Speed(1, plain, own, in_parts=_run(1.0, 400, drafts_s=0.2))
    assert speed.speedups == speed.wall_speedups == [2.0, 2.0]
    assert speed.committed_per_step == 2.5
    assert speed.rho == pytest.approx(1.25) and speed.rho_draft == pytest.approx(0.25)
    assert speed.expected == pytest.approx(2.0) and speed.note == ""


def test_time_outside_steps_is_told() -> None:
    speed = Speed(1, (_run(1.3, 1000, prompts_s=0.3),), (_run(0.8, 400, prompts_s=0.3),), _run(0.8, 400))
    assert speed.expected == pytest.approx(2.0) and speed.speedups[0] == pytest.approx(1.625)
    assert speed.note == (
        "own: 38 % of the time in prompts, 62 % in steps; plain: 23 % of the time in prompts, 77 % in steps"
    )
