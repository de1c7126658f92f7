"""What is stored is what was said, and lessons are made of it in an order that a run can go on in."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch
from periodic_talker import WIDTH, periodic_talker
from talkahead.config import RequestOptions
from talkahead.draft_training.beginnings import part_of
from talkahead.draft_training.lesson import IGNORE, Likely, drawing
from talkahead.draft_training.likely_tokens import LikelyTokens
from talkahead.draft_training.own_speech import OwnSpeech, Talker, Utterance
from talkahead.draft_training.speech_store import SpeechStore
from talkahead.draft_training.stored_lessons import StoredLessons


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talker")
    periodic_talker().save(folder)
    return folder


@pytest.fixture(scope="module")
def said(talker: Path) -> list[Utterance]:
    prompts = list(torch.randn(20, 3, WIDTH, generator=torch.Generator().manual_seed(1)))
    return OwnSpeech(Talker.serving(talker), prompts, RequestOptions(), seed=5).plain()


@pytest.fixture
def store(said: list[Utterance], tmp_path: Path) -> SpeechStore:
    store = SpeechStore(tmp_path)
    store.add(said[:12], keeps_prompts=True)
    store.add(said[12:], keeps_prompts=True)
    return SpeechStore(tmp_path)


def test_utterances_come_back_as_they_were_said(store: SpeechStore, said: list[Utterance]) -> None:
    assert (store.num_shards, len(store), store.num_tokens) == (2, 20, sum(len(one.tokens) for one in said))
    for number, one in enumerate(said):
        found = store[number].spoken
        assert (found.tokens, found.seed, found.steps) == (one.tokens, one.seed, one.steps)
        torch.testing.assert_close(torch.stack(found.hidden), torch.stack(one.hidden), rtol=0.01, atol=0.01)
        torch.testing.assert_close(found.prompt, one.prompt, rtol=0.01, atol=0.01)


def test_a_hidden_state_draws_its_token(store: SpeechStore, talker: Path) -> None:
    """A lesson's states are those of the talker over its rows, the last one's included."""
    whole = part_of(talker, (0, 1))
    for lesson in StoredLessons(store, whole, positions=60, tells_rows=True).some(5):
        states = drawing(whole(lesson.rows).hidden, lesson.starts, lesson.tokens.shape[1])
        is_said = lesson.tokens != IGNORE
        torch.testing.assert_close(lesson.hidden[is_said], states[is_said], rtol=0.05, atol=0.05)


def test_lessons_hold_every_utterance_once_a_pass_and_a_run_goes_on_where_it_was(
    store: SpeechStore, talker: Path
) -> None:
    lessons = StoredLessons(store, part_of(talker, ()), positions=80, tells_rows=False)
    batches = [one.tokens for one in islice(lessons.endless(seed=3, first=0), 30)]
    tokens, count = 0, 0
    while tokens < store.num_tokens:
        tokens += int((batches[count] != IGNORE).sum())
        count += 1
    assert tokens == store.num_tokens
    assert all(batch.numel() <= 80 or len(batch) == 1 for batch in batches)
    later = next(lessons.endless(seed=3, first=count + 2)).tokens
    assert torch.equal(later, batches[count + 2])


def test_lessons_tell_what_else_their_states_might_have_drawn(store: SpeechStore, talker: Path) -> None:
    """Of each place what the talker's head says of its state, for which it is asked once."""
    part = part_of(talker, ())
    asked: list[torch.Tensor] = []
    part.lm_head.register_forward_hook(lambda _, given, made: asked.append(made))
    lessons = StoredLessons(store, part, 80, tells_rows=False, likely=LikelyTokens(part.lm_head))
    for lesson in [*lessons.some(3), *lessons.some(3)]:
        is_said = lesson.tokens != IGNORE
        before = len(asked)
        wanted = Likely.of(part.lm_head(lesson.hidden[is_said]))
        del asked[before:]
        assert lesson.likely is not None
        assert lesson.likely.tokens.shape[:2] == lesson.tokens.shape
        spread = torch.zeros(int(is_said.sum()), part.lm_head.out_features)
        expected = spread.scatter(1, wanted.tokens.long(), wanted.odds)
        found = spread.scatter(
            1, lesson.likely.tokens[is_said].long(), lesson.likely.odds[is_said].to(spread.dtype)
        )
        torch.testing.assert_close(found, expected, rtol=0.01, atol=1e-3)
    assert len(asked) == sum(len(lesson.tokens) for lesson in lessons.some(3))
