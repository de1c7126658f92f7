"""Threads that share the work of a call: every part once, whoever else calls, and sleep between calls."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import CFUNCTYPE, c_int64, c_void_p, cast
from threading import Barrier, Event, get_native_id

import pytest
from talkahead.backbone.native_team import helpers_of

Part = CFUNCTYPE(None, c_void_p, c_int64, c_int64)
Share = CFUNCTYPE(None, c_void_p, Part, c_void_p, c_int64)


def share(threads: int, do_part: Callable[[int, int], None], parts: int, *, yields: bool = False) -> None:
    """As native calls do; `do_part` is told the part and the member that does it."""
    helpers = helpers_of(threads, yields=yields)
    cast(helpers.share, Share)(helpers.team, Part(lambda _, part, member: do_part(part, member)), None, parts)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_each_part_is_done_once_before_the_call_returns(threads: int) -> None:
    random.seed(threads)
    for parts in [random.randint(2, 40) for _ in range(300)]:
        done: list[tuple[int, int]] = []
        share(threads, lambda part, member, to=done: to.append((part, member)), parts)  # type: ignore[misc]
        assert sorted(part for part, _ in done) == list(range(parts))
        assert {member for _, member in done} <= set(range(threads))


def test_as_many_threads_as_members_work_at_once() -> None:
    """Three parts that wait for each other are done, so three members do them."""
    together, members = Barrier(3, timeout=60), {}

    def do_part(part: int, member: int) -> None:
        together.wait()
        members[member] = get_native_id()

    share(3, do_part, 3)
    assert sorted(members) == [0, 1, 2] and len(set(members.values())) == 3


@pytest.mark.parametrize("yields", [False, True])
def test_those_who_yield_run_where_nobody_else_wants_to(yields: bool) -> None:
    together, policies = Barrier(2, timeout=60), {}

    def do_part(part: int, member: int) -> None:
        together.wait()
        policies[member] = os.sched_getscheduler(get_native_id())

    share(2, do_part, 2, yields=yields)
    own = os.sched_getscheduler(0)
    assert policies == {0: own, 1: os.SCHED_IDLE if yields else own}


def test_a_call_does_its_work_alone_while_the_team_has_another() -> None:
    """The first call's parts wait until the second one is over."""
    begun, over = Event(), Event()
    alone: list[tuple[int, int]] = []

    def wait(part: int, member: int) -> None:
        begun.set()
        assert over.wait(60)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(share, 2, wait, 2)
        assert begun.wait(60)
        share(2, lambda part, member: alone.append((part, member)), 5)
        over.set()
        first.result()
    assert sorted(alone) == [(part, 0) for part in range(5)]


def test_calls_of_many_threads_each_do_all_of_their_parts() -> None:
    def call(seed: int) -> Counter[int]:
        done: Counter[int] = Counter()
        for _ in range(100):
            share(2, lambda part, member: done.update([part]), 6)
        return done

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(call, range(4))) == [Counter(dict.fromkeys(range(6), 100))] * 4


def test_helpers_sleep_while_there_is_nothing_to_do() -> None:
    share(7, lambda part, member: None, 7)
    before = time.process_time()
    Event().wait(0.3)
    assert time.process_time() - before < 0.15  # six that looked on would take 0.3 each


def test_one_thread_has_no_helpers() -> None:
    assert not helpers_of(1).team and not helpers_of(1).share
    assert helpers_of(100).team == helpers_of(16).team
