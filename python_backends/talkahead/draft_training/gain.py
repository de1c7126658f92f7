"""What a draft brings on this machine: as the server decides it, and as it is measured by turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.backbone.reach_choice import settle_reach
from talkahead.backbone.thread_choice import ThreadChoice
from talkahead.config import AUTO, ModelConfig, RequestOptions, parameters_of
from talkahead.draft_training.bootstrap import bootstrap_interval
from talkahead.draft_training.own_speech import SLOTS, Talker, Utterance, speak
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.draft_artifact import belongs, load_drafter
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.drafters import DRAFTERS
from talkahead.drafting.offer import Offer, read_offer
from talkahead.engine.decode_step import DecodeStep, Drawn
from talkahead.engine.draft_forecast import DraftForecast
from talkahead.engine.method_book import MethodBook
from talkahead.engine.native_steps import Stop
from talkahead.engine.step_timer import StepTimer
from talkahead.speculation.allowed_tokens import AllowedTokens
from talkahead.speculation.contracts import Drafter, Verifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.pairs import PLAIN, Pair
from talkahead.speculation.target_tokens import TargetTokens


class _TimedStep(DecodeStep):
    """Counts the seconds that steps take, without prompts."""

    seconds = 0.0

    def run(self, slots: Sequence[int], stop: Stop | None = None) -> Drawn:
        began = self._clock()
        drawn = super().run(slots, stop)
        self.seconds += self._clock() - began
        return drawn


@dataclass(frozen=True)
class Spoken:
    """One text, by one stream: its tokens after the first, the steps that brought them, and their time."""

    tokens: int
    steps: int
    seconds: float


@dataclass
class Gain:
    """Texts spoken plainly and with a draft, by turns."""

    plain: list[Spoken] = field(default_factory=list)
    drafted: list[Spoken] = field(default_factory=list)

    @classmethod
    def measure(cls, plain: Callable[[int], Spoken], drafted: Callable[[int], Spoken], count: int) -> Self:
        """Of `count` texts; every other one is drafted first. What the machine does meanwhile meets both."""
        gain = cls()
        turns = [(plain, gain.plain), (drafted, gain.drafted)]
        for speaker, _ in turns:
            speaker(0)  # caches and predictors settle
        for number in range(count):
            for speaker, found in turns if number % 2 else reversed(turns):
                found.append(speaker(number))
        return gain

    @property
    def tokens_per_step(self) -> float:
        return sum(one.tokens for one in self.drafted) / sum(one.steps for one in self.drafted)

    @property
    def step_cost(self) -> float:
        """Of a drafted step, in plain ones."""
        return self.tokens_per_step / self.speed_up

    @property
    def speed_up(self) -> float:
        """Over plain decoding, which says the same tokens."""
        return sum(one.seconds for one in self.plain) / sum(one.seconds for one in self.drafted)

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, by drawing texts again (bootstrap)."""

        def speed_up(pick: Sequence[int]) -> float:
            return Gain([self.plain[at] for at in pick], [self.drafted[at] for at in pick]).speed_up

        return bootstrap_interval(speed_up, len(self.plain))


class Bench:
    """A talker as it is served, with a new draft beside those that it has.

    Args:
        folder: of the new draft, wherever it lies.
        tokens_per_s: of speech.

    Attributes:
        outdated: drafts beside it that an earlier talker had, and that this one is not served with.
    """

    def __init__(
        self,
        talker: Path,
        drafter: str,
        folder: Path,
        positions: int,
        device: str,
        allowed: AllowedTokens | None,
        tokens_per_s: float,
    ) -> None:
        self._allowed = allowed
        offer = read_offer(talker)
        others = {name: draft_folder(talker, name) for name in offer.drafters if name != drafter}
        self.outdated = tuple(name for name, own in others.items() if not belongs(own, talker))
        folders = {name: own for name, own in others.items() if name not in self.outdated}
        folders[drafter] = folder
        self._sizes = {name: DRAFTERS[name].sizes(own) for name, own in folders.items()}
        self._drafter, self._folder, self._talker = drafter, folder, talker
        config = ModelConfig(talker, parameters_of(talker.parent), max_batch_size=1)
        threads, served = ThreadChoice.of(config), Talker.serving(talker, device)
        self._pool = DraftPool.serving(SLOTS, positions, device, target=served.dtype)
        most = max(sizes.nodes[-1] for sizes in self._sizes.values())
        threads.claim(torch.device(device))
        self._decoder = served.decoder(positions, most)
        threads.settle(self._decoder, tokens_per_s)
        settle_reach(self._decoder)
        drafters = {name: load_drafter(own, talker, self._pool) for name, own in folders.items()}
        methods = MethodBook(Offer(self._sizes), drafters, TargetTokens(self._decoder.eos, {}))
        found = {name: Acceptance.read(own) for name, own in folders.items()}
        counted = {name: one for name, one in found.items() if one is not None}
        self.forecast = DraftForecast(StepTimer(self._decoder, methods, counted).measure(), counted)

    @property
    def served(self) -> Pair:
        """What a server on this machine takes for requests that ask for none."""
        return self.forecast.fastest_pair(PLAIN.verifier, self._sizes)

    @property
    def nodes(self) -> int:
        """Of the draft that brings one stream most, or costs it least."""
        own = self.forecast.of(self._drafter)
        assert own is not None
        return max(self._sizes[self._drafter].usual, key=lambda nodes: own.speed_up(nodes, 1))

    def measure(self, prompts: Sequence[Tensor], sampling: RequestOptions, seed: int) -> Gain:
        """With `nodes`: the same tokens, for `match` sees to that."""
        options = DraftOptions(self.nodes, returns_probs=False)
        drafter = load_drafter(self._folder, self._talker, self._pool, options)
        plain, drafted = (
            partial(self._speak, one, prompts, sampling, seed) for one in (NullDrafter(), drafter)
        )
        return Gain.measure(plain, drafted, len(prompts))

    def _speak(
        self, drafter: Drafter, prompts: Sequence[Tensor], sampling: RequestOptions, seed: int, number: int
    ) -> Spoken:
        steps: list[_TimedStep] = []

        def timed(decoder: Backbone, drafter: Drafter, verifier: Verifier) -> DecodeStep:
            steps.append(_TimedStep(decoder, drafter, verifier, allowed=self._allowed))
            return steps[0]

        said: list[Utterance] = speak(
            *(self._decoder, drafter, MatchVerifier(), [prompts[number]], sampling, seed + number), timed
        )
        return Spoken(len(said[0].tokens) - 1, said[0].steps, steps[0].seconds)


def verdict(drafter: str, nodes: int, gain: Gain, served: Pair, told: str = AUTO) -> str:
    """What a user wants to know.

    Args:
        served: the pair that pays most here.
        told: parameter `drafter` of the talker's config.pbtxt, with which the server does as it is told.
    """
    low, high = gain.interval
    found = (
        f"{drafter}+match: {gain.tokens_per_step:.2f} tokens a step with {nodes} nodes, "
        f"{gain.speed_up:.2f}x plain decoding here ({low:.2f} to {high:.2f}; a step costs "
        f"{gain.step_cost:.2f} plain ones)"
    )
    if told != AUTO:
        by_itself = "plain decoding" if served == PLAIN else f"{served.drafter}+{served.verifier}"
        return (
            f"{found}; config.pbtxt has the server take drafter {told} by default, where {AUTO} would take "
            f"{by_itself}"
        )
    if served == Pair(drafter, PLAIN.verifier):
        return f"{found}; the server takes it by default"
    other = "plain decoding" if served == PLAIN else f"{served.drafter}+{served.verifier}"
    return f"{found}: that brings nothing here, and the server stays with {other}"
