"""A real server, driven through whatever its clients may do, beside a model that counts on its fingers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hearing import SAME_FRAMES, Audio, difference, hear, speak
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from idle import wait_until_idle
from raw import RawStream, Refused, refusal, speech_request
from served import REPOSITORY, Served, served
from talkahead_client import AudioChunk, Cancelled, Client, ServerBusy, Speech
from texts import SENTENCES

from instruments.changed_repository import changed_repository

pytestmark = [pytest.mark.slow, pytest.mark.patient]

SLOTS, MAX_PENDING = 3, 4
KNOWN = 4
RUNS, STEPS = 3, 25


@dataclass
class Listener:
    """A stream whose client is there, what it asked for, and what it has heard."""

    request: int
    speech: Speech
    heard: list[AudioChunk] = field(default_factory=list)


def asked(request: int) -> dict[str, Any]:
    """One to three segments."""
    first = SENTENCES[request]
    return {"text": " ".join([first, *SENTENCES[8 : 8 + request % 3]]), "seed": request}


class AnyClients(RuleBasedStateMachine):
    """Whoever is let in and stays hears what is spoken to who is alone; nothing is left of anybody."""

    def __init__(self, server: Served, client: Client, alone: list[Audio]) -> None:
        super().__init__()
        self.server, self.client, self.alone = server, client, alone
        self.listeners: list[Listener] = []
        self.num_begun = 0
        """Since nobody was there: as long as all of them find a place, nobody is refused."""

    @rule(request=st.integers(0, KNOWN - 1), urgency=st.integers(1, 3))
    def begin(self, request: int, urgency: int) -> None:
        self.num_begun += 1
        self.listeners.append(Listener(request, self.client.speak(**asked(request), urgency=urgency)))

    @precondition(lambda self: self.listeners)
    @rule(which=st.randoms(use_true_random=False))
    def hear_a_chunk(self, which: Any) -> None:  # noqa: ANN401
        listener = which.choice(self.listeners)
        try:
            listener.heard.append(next(listener.speech))
        except StopIteration:
            self.finish(listener)
        except ServerBusy:
            self.refused(listener)

    @precondition(lambda self: self.listeners)
    @rule(which=st.randoms(use_true_random=False))
    def hear_the_rest(self, which: Any) -> None:  # noqa: ANN401
        listener = which.choice(self.listeners)
        try:
            listener.heard.extend(listener.speech)
        except ServerBusy:
            self.refused(listener)
        else:
            self.finish(listener)

    @precondition(lambda self: self.listeners)
    @rule(which=st.randoms(use_true_random=False))
    def leave(self, which: Any) -> None:  # noqa: ANN401
        listener = which.choice(self.listeners)
        self.listeners.remove(listener)
        listener.speech.close()

    @precondition(lambda self: any(listener.heard for listener in self.listeners))
    @rule(which=st.randoms(use_true_random=False))
    def be_cancelled(self, which: Any) -> None:  # noqa: ANN401
        """By somebody else, who knows the stream; it may have been spoken already."""
        listener = which.choice([one for one in self.listeners if one.heard])
        cancelled = self.client.cancel(stream=listener.heard[0].stats.stream)
        try:
            listener.heard.extend(listener.speech)
        except Cancelled:
            assert cancelled == 1
            self.listeners.remove(listener)
        else:
            self.finish(listener)

    @rule(request=st.integers(0, KNOWN - 1))
    def vanish(self, request: int) -> None:
        self.num_begun += 1
        stream = RawStream(self.server.grpc, speech_request(asked(request)["text"]))
        with stream, suppress(Refused):
            stream.first()

    @rule()
    def ask_for_nonsense(self) -> None:
        assert "nodes" in refusal(self.server.grpc, speech_request("Hello.", parameters={"nodes": 0}))

    @precondition(lambda self: not self.listeners)
    @rule()
    def rest(self) -> None:
        self.wait_until_idle()

    def finish(self, listener: Listener) -> None:
        self.listeners.remove(listener)
        assert difference(hear(listener.heard).audio, self.alone[listener.request]) < SAME_FRAMES

    def refused(self, listener: Listener) -> None:
        """At once, and only where others may have all places."""
        self.listeners.remove(listener)
        assert not listener.heard
        assert self.num_begun > SLOTS + MAX_PENDING

    def wait_until_idle(self) -> None:
        wait_until_idle(self.client)
        self.num_begun = 0

    def teardown(self) -> None:
        while self.listeners:
            self.listeners.pop().speech.close()
        self.wait_until_idle()
        # Every slot is free: so many are spoken at once, and one more.
        speeches = [self.client.speak(**asked(0)) for _ in range(SLOTS + 1)]
        for speech in speeches:
            assert difference(hear(speech).audio, self.alone[0]) < SAME_FRAMES


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # Nobody is refused for a prediction, which the model does not make.
    changes = {"slots": SLOTS, "max_pending": MAX_PENDING, "max_wait_ms": 0, "min_pace": 0, "drafter": "none"}
    parameters = {f"talker.{name}": str(value) for name, value in changes.items()}
    repository = changed_repository(REPOSITORY, tmp_path_factory.mktemp("small") / "models", parameters)
    with served("--repository", repository, "--exit-timeout", "1") as running:
        yield running


def test_whatever_clients_do_who_stays_is_spoken_to_and_nothing_is_left(small: Served) -> None:
    with Client(small.grpc) as client:
        alone = [speak(client, **asked(request)).audio for request in range(KNOWN)]
        run_state_machine_as_test(
            lambda: AnyClients(small, client, alone),
            settings=settings(
                max_examples=RUNS,
                stateful_step_count=STEPS,
                deadline=None,
                derandomize=True,
                phases=(Phase.generate,),  # a load does not come again as it was
                suppress_health_check=list(HealthCheck),
            ),
        )
