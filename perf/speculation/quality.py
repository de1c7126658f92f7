"""The quality pass: test sentences spoken with a method, heard, and compared with plain decoding of the same.

Sentences are spoken and heard in processes; what a sentence says never depends on its neighbours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch

from instruments.percentages import Difference, percent
from instruments.setting import Setting
from perf.speculation.evaluation import Ending, Evaluation, Listener
from perf.speculation.methods import Method
from perf.speculation.runner import Runner
from perf.speculation.token_swap import TokenSwap

_SLOTS = 16
_PIECES = 2
"""Of a row's work for each process: so that none waits long for the last."""


@dataclass(frozen=True)
class Spoken:
    """One sentence; `digest` tells tokens apart, the end of speech among them."""

    digest: str
    tokens: int
    steps: int
    duration_s: float
    edits: int
    words: int
    p808: float
    ending: str


@dataclass(frozen=True)
class WorkerContext:
    """What a process needs in order to speak and to hear."""

    runner: Runner
    setting: Setting


@dataclass(frozen=True)
class Passage:
    """A span of sentences, spoken.

    Args:
        num_heard: audios that were not known before.
        swapped: share of the tokens that gave way to others; None where none should.
    """

    spoken: list[Spoken]
    num_heard: int
    swapped: float | None


def speak_and_hear(context: WorkerContext, method: Method, start: int, stop: int, seed: int) -> Passage:
    """Sentences `start` to `stop`, by whichever process has time."""
    torch.set_num_threads(1)
    context = _settled(context)
    listener = _listener(context.setting)
    known = listener.num_heard
    loop = context.runner.loop(method, min(_SLOTS, stop - start))
    said = context.runner.speak(loop, method, range(start, stop), seed)
    eos = loop.decoder.eos
    swap = _swap(context.runner, method, eos)
    spoken, changed = [], []
    for sentence, utterance in zip(context.runner.sentences[start:stop], said, strict=True):
        tokens = swap.apply(utterance.tokens, utterance.seed) if swap else utterance.tokens
        changed += [one != other for one, other in zip(tokens, utterance.tokens, strict=True)]
        heard = listener.hear(sentence, [token for token in tokens if token != eos])
        spoken.append(_spoken(tokens, utterance.steps, heard, has_ended=tokens[-1] == eos))
    return Passage(spoken, listener.num_heard - known, float(np.mean(changed)) if swap else None)


def hear_teacher(context: WorkerContext, start: int, stop: int) -> list[Evaluation]:
    torch.set_num_threads(1)
    listener = _listener(context.setting)
    return [listener.hear_teacher(sentence) for sentence in context.runner.sentences[start:stop]]


@cache
def _settled(context: WorkerContext) -> WorkerContext:
    """The first that came here of equal ones: it keeps what it has loaded."""
    return context


@cache
def _listener(setting: Setting) -> Listener:
    return Listener(setting)


def _swap(runner: Runner, method: Method, eos: int) -> TokenSwap | None:
    if method.swapped_within is None:
        return None
    return TokenSwap(runner.embeddings, method.swapped_within, eos)


def _spoken(tokens: Sequence[int], steps: int, heard: Evaluation, *, has_ended: bool) -> Spoken:
    return Spoken(
        digest=hashlib.sha256(json.dumps(list(tokens)).encode()).hexdigest()[:16],
        tokens=len(tokens),
        steps=steps,
        duration_s=heard.duration_s,
        edits=heard.edits,
        words=heard.words,
        p808=heard.p808,
        ending=heard.ending(has_ended=has_ended),
    )


@dataclass(frozen=True)
class Speech:
    """All sentences of one row, in order: what is kept."""

    spoken: tuple[Spoken, ...]
    num_heard: int
    swapped: float | None

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        return cls(**{**fields, "spoken": tuple(Spoken(**one) for one in fields["spoken"])})

    @property
    def committed_per_step(self) -> float:
        """Tokens of a target step, root included; an utterance's first token comes without one."""
        return sum(one.tokens - 1 for one in self.spoken) / sum(one.steps for one in self.spoken)

    def first(self, count: int) -> Speech:
        return Speech(self.spoken[:count], self.num_heard, self.swapped)


def speech(
    pool: Executor, workers: int, context: WorkerContext, method: Method, sentences: int, seed: int
) -> Speech:
    """The first `sentences` of them."""
    jobs = [
        pool.submit(speak_and_hear, context, method, start, stop, seed)
        for start, stop in spans(sentences, _PIECES * workers)
    ]
    passages = [job.result() for job in jobs]
    shares = [one.swapped for one in passages if one.swapped is not None]
    return Speech(
        tuple(one for passage in passages for one in passage.spoken),
        sum(passage.num_heard for passage in passages),
        float(np.mean(shares)) if shares else None,
    )


def teacher_speech(pool: Executor, workers: int, context: WorkerContext, sentences: int) -> list[Evaluation]:
    jobs = [pool.submit(hear_teacher, context, *span) for span in spans(sentences, _PIECES * workers)]
    return [heard for job in jobs for heard in job.result()]


def spans(count: int, pieces: int) -> Iterator[tuple[int, int]]:
    """`count` items in at most `pieces` runs of nearly the same length."""
    edges = [round(count * piece / pieces) for piece in range(pieces + 1)]
    yield from ((start, stop) for start, stop in pairwise(edges) if stop > start)


@dataclass(frozen=True)
class Quality:
    """A row's figures, and plain decoding's of the same sentences. Rates in percent.

    Args:
        difference, low, high: word errors less plain's, in points; 95 % interval over sentences in pairs.
        same_tokens: sentences with the tokens of plain decoding. Their audio is not heard again.
    """

    sentences: int
    word_errors: float
    plain_word_errors: float
    difference: float
    low: float
    high: float
    p808: float
    plain_p808: float
    wrong_endings: float
    plain_wrong_endings: float
    endings: dict[str, int]
    committed_per_step: float
    same_tokens: int
    num_heard: int
    swapped: float | None
    spoken: tuple[Spoken, ...]

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        return cls(**{**fields, "spoken": tuple(Spoken(**one) for one in fields["spoken"])})

    @classmethod
    def of(cls, own: Speech, plain: Speech) -> Self:
        """`plain` has at least the sentences of `own`, in the same order."""
        pairs = list(zip(own.spoken, plain.first(len(own.spoken)).spoken, strict=True))
        more = Difference.of_percents(
            [one.edits - other.edits for one, other in pairs], [one.words for one, _ in pairs]
        )
        mine, theirs = own.spoken, [other for _, other in pairs]
        return cls(
            sentences=len(pairs),
            word_errors=_word_errors(mine),
            plain_word_errors=_word_errors(theirs),
            difference=more.value,
            low=more.low,
            high=more.high,
            p808=_mean(mine, lambda one: one.p808),
            plain_p808=_mean(theirs, lambda one: one.p808),
            wrong_endings=percent(one.ending != Ending.RIGHT for one in mine),
            plain_wrong_endings=percent(one.ending != Ending.RIGHT for one in theirs),
            endings={kind: sum(one.ending == kind for one in mine) for kind in Ending},
            committed_per_step=own.committed_per_step,
            same_tokens=sum(one.digest == other.digest for one, other in pairs),
            num_heard=own.num_heard,
            swapped=own.swapped,
            spoken=mine,
        )


def _word_errors(spoken: Sequence[Spoken]) -> float:
    return 100 * sum(one.edits for one in spoken) / sum(one.words for one in spoken)


def _mean(spoken: Sequence[Spoken], value: Callable[[Spoken], float]) -> float:
    return float(np.mean([value(one) for one in spoken]))


def teacher_word_errors(heard: Sequence[Evaluation]) -> float:
    return 100 * sum(one.edits for one in heard) / sum(one.words for one in heard)


def as_json(made: Speech) -> dict[str, Any]:
    return asdict(made)
