"""Something dies, fails or is held up while sixteen streams are open: each ends once, clearly, and the next
request speaks. How long that takes is printed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from faults import Faults
from hearing import Utterance, hear, speak
from served import Served, served
from talkahead_client import Client, DeadlineExceeded, SpeechError, StreamBroken
from waiting import eventually

pytestmark = pytest.mark.slow

STREAMS = 16
TEXT = "Hello there. " * 12
"""More segments than leave at once, so that every model still has work when something happens."""
PAUSE_S = 3.0
RECOVERY_LIMIT_S = 100.0


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    return Faults(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def faulty(faults: Faults) -> Iterator[Served]:
    """One server, restarted as it comes."""
    options = ("--restarts", "100", "--exit-timeout", "1")
    with served("--repository", faults.repository, *options) as running:
        yield running


@dataclass(frozen=True)
class Ends:
    """How the streams ended that were open when something happened."""

    whole: list[Utterance]
    errors: list[SpeechError]


def happen(server: Served, what: str, fault: Callable[[], object]) -> Ends:
    """Lets something happen to open streams; returns their ends, after the next request has spoken."""
    with Client(server.grpc) as client:
        speeches = [client.speak(TEXT, seed=seed) for seed in range(STREAMS)]
        firsts = [next(speech) for speech in speeches]
        began = time.perf_counter()
        fault()
        ends: list[Utterance | SpeechError] = []
        for first, speech in zip(firsts, speeches, strict=True):
            try:
                ends.append(hear([first, *speech]))
            except SpeechError as error:
                ends.append(error)
        ended_s = time.perf_counter() - began
    eventually(lambda: silence(server), lambda reason: reason is None, limit_s=RECOVERY_LIMIT_S)
    spoke_s = time.perf_counter() - began
    whole = [end for end in ends if isinstance(end, Utterance)]
    errors = [end for end in ends if isinstance(end, SpeechError)]
    print(
        f"{what}: of {STREAMS} streams {len(whole)} whole and {len(errors)} told an error, the last after "
        f"{ended_s:.1f} s; the next request spoke after {spoke_s:.1f} s"
    )
    for error in errors:
        print(f"  {type(error).__name__}: {error}")
        assert str(error) and not isinstance(error, DeadlineExceeded), "nobody told the client"
    return Ends(whole, errors)


def silence(server: Served) -> str | None:
    """Why the server does not speak, or None; over a connection of its own, for one that failed waits."""
    try:
        with Client(server.grpc) as client:
            speak(client, "Hello there.", chunk_deadline_s=5.0)
    except SpeechError as error:
        return str(error)
    return None


FAILURES = {
    "send frontend": "the encoder sent numbers that are not finite",
    "send encoder": r"segment \d+ never reached the talker",
    "send talker": r"chunk \d+ could not be sent: RuntimeError: injected: no shared memory",
    "send vocoder": r"the vocoder failed on chunk \d+",
    "window": r"the vocoder failed on chunk \d+",
}
"""What is asked for once, and how the stream ends that it meets."""


@pytest.mark.parametrize("fault", FAILURES)
def test_a_failure_in_one_stream_ends_that_one_with_an_error(
    fault: str, faulty: Served, faults: Faults
) -> None:
    before = faulty.model_pids()
    ends = happen(faulty, fault, lambda: faults.strike(fault))
    assert faults.has_struck(fault)
    [error] = ends.errors
    with pytest.raises(SpeechError, match=FAILURES[fault]):
        raise error
    assert faulty.model_pids() == before, "a model was restarted"


def test_a_step_that_fails_ends_every_stream_and_the_talker_comes_back(
    faulty: Served, faults: Faults
) -> None:
    """Triton before 26.05 may crash over errors of streams whose segments are still under way (its core's
    pull request 483): then those that it has not handed on yet are cut.
    """
    before = faulty.model_pids()
    ends = happen(faulty, "exception in a step", lambda: faults.strike("step"))
    assert len(ends.errors) == STREAMS
    told = {str(error) for error in ends.errors if not isinstance(error, StreamBroken)}
    assert told == {"the talker's loop failed: RuntimeError: injected: no memory"}
    assert faulty.model_pids() != before


@pytest.mark.parametrize("model", ["talker", "vocoder", "encoder", "frontend"])
def test_a_model_that_is_killed_comes_back(model: str, faulty: Served) -> None:
    pid = faulty.model_pids()[model]
    happen(faulty, f"{model} killed", lambda: os.kill(pid, signal.SIGKILL))
    assert pid not in faulty.model_pids().values()


@pytest.mark.parametrize("model", ["vocoder", "talker"])
def test_a_model_that_is_held_up_speaks_again(model: str, faulty: Served) -> None:
    """Stopped and continued, as a throttled container or a migrating machine does it."""
    happen(faulty, f"{model} held up for {PAUSE_S:g} s", lambda: hold_up(faulty.model_pids()[model]))


def test_a_vocoder_that_is_held_up_for_good_is_noticed_by_what_the_talker_says(faulty: Served) -> None:
    pid = faulty.model_pids()["vocoder"]
    happen(faulty, "vocoder held up for good", lambda: os.kill(pid, signal.SIGSTOP))
    assert pid not in faulty.model_pids().values()


def test_a_model_that_is_held_up_in_silence_is_noticed_by_a_syllable() -> None:
    """Nobody is there whom an error could tell."""
    with served("--check-interval", "1", "--exit-timeout", "1") as server:
        began = time.perf_counter()
        os.kill(server.model_pids()["encoder"], signal.SIGSTOP)
        server.wait_for("the server does not speak any more: ")
        print(f"encoder held up in silence: noticed after {time.perf_counter() - began:.1f} s")
        server.wait_until_ready(count=2)
        assert silence(server) is None


def hold_up(pid: int) -> None:
    """Returns at once."""
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(PAUSE_S, let_go, (pid,)).start()


def let_go(pid: int) -> None:
    with suppress(ProcessLookupError):  # it was ended meanwhile
        os.kill(pid, signal.SIGCONT)
