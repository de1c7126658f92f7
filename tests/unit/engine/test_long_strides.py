"""Steps that add several tokens: the speech ends, is cut and is counted at the right frame all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from talkahead.backbone.llama import Llama
from talkahead.speculation.contracts import Context
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree, TreeShape
from talkahead.types import StopReason
from talker_fakes import CONFIG
from test_exactness import SEGMENTS, VOCABULARY, Stage, Utterance, alone, make_utterances
from test_exactness import llama as llama

LENGTH = 5
EOS = VOCABULARY - 1


class KnowingDrafter(NullDrafter):
    """Drafts what will be said, and the end of speech, and more after it."""

    def __init__(self, utterances: list[Utterance], spoken: list[list[list[int]]]) -> None:
        self._spoken: dict[int, list[int]] = {}
        for utterance, segments in zip(utterances, spoken, strict=True):
            for index, tokens in enumerate(segments):
                key = stream_keys(torch.tensor([utterance.seed]), torch.tensor([index]))
                self._spoken[int(key)] = [*tokens, EOS, *range(LENGTH)]

    def propose(self, context: Context) -> TokenTree:
        rows = zip(context.keys.tolist(), context.positions.tolist(), strict=True)
        coming = [self._spoken[key][place + 1 : place + 1 + LENGTH] for key, place in rows]
        padded = torch.tensor([one + [0] * (LENGTH - len(one)) for one in coming])
        tokens = torch.cat([context.roots, padded], dim=1)
        return TokenTree(tokens[..., None], TreeShape(tuple(range(-1, LENGTH))))


@pytest.fixture(scope="module")
def utterances() -> list[Utterance]:
    return make_utterances(0.9)[:6]


@pytest.fixture(scope="module")
def plain(llama: Llama, utterances: list[Utterance]) -> list[list[list[int]]]:
    return alone(llama, utterances)


def stage_of(
    llama: Llama, utterances: list[Utterance], plain: list[list[list[int]]], **options: object
) -> Stage:
    stage = Stage(llama, 4, replace(CONFIG, max_pending=99), KnowingDrafter(utterances, plain))
    for utterance in utterances:
        stage.submit(replace(utterance, options=replace(utterance.options, **options)))  # type: ignore[arg-type]
    stage.finish()
    return stage


def test_a_drafted_end_of_speech_ends_the_segment_at_its_frame(
    llama: Llama, utterances: list[Utterance], plain: list[list[list[int]]]
) -> None:
    stage = stage_of(llama, utterances, plain)
    assert [stage.tokens(one.stream) for one in utterances] == plain
    for utterance, segments in zip(utterances, plain, strict=True):
        windows = [window for outlet in stage.outlets[utterance.stream] for window in outlet.windows]
        stats = windows[-1].stats
        assert [window.header.chunk for window in windows] == list(range(len(windows)))
        assert stats.frames == sum(map(len, segments)) == sum(window.header.new for window in windows)
        assert stats.drafted == LENGTH * stats.target_steps
        # The first frame of each segment comes with its prompt; an end of speech may be drafted or drawn.
        said = stats.frames - SEGMENTS
        assert said <= stats.target_steps + stats.accepted <= said + 2 * SEGMENTS
        assert stats.target_steps <= sum(-(-len(tokens) // (LENGTH + 1)) for tokens in segments)


@pytest.mark.parametrize("frames", range(1, 2 * LENGTH + 3))
def test_max_seconds_cuts_within_a_step(
    llama: Llama, utterances: list[Utterance], plain: list[list[list[int]]], frames: int
) -> None:
    stage = stage_of(llama, utterances, plain, max_seconds=(frames + 0.5) / CONFIG.speech.frames_per_s)
    for utterance, segments in zip(utterances, plain, strict=True):
        outlets = stage.outlets[utterance.stream]
        windows = [window for outlet in outlets for window in outlet.windows]
        expected = [token for tokens in segments for token in tokens][:frames]
        assert [token for outlet in outlets for token in outlet.tokens] == expected
        assert windows[-1].stats.frames == len(expected) and windows[-1].header.new > 0
        if frames < sum(map(len, segments)):
            assert windows[-1].header.reason == StopReason.MAX_SECONDS
