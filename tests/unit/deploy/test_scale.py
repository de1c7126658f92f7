"""The simulation repeats what was measured, and its autoscaler goes by the chart's rules."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import pytest

pytest.importorskip("simpy")
pytest.importorskip("matplotlib")

import simpy

from deploy.scale.__main__ import _FOLDER, TOLERANCE, compare, fit, hold
from deploy.scale.autoscaler import Autoscaler, Rules
from deploy.scale.costs import PLAYING, read
from deploy.scale.cpu import Cpu
from deploy.scale.replica import SLOTS, Life, Replica

COSTS, CELLS = read()
REPORT = json.loads((_FOLDER / "scale.json").read_text(encoding="utf-8"))
RULES = Rules(lowest=2, highest=10, open_streams=8.0, queued=1.0, share=1.0, pods=2, period_s=30.0)


def test_what_was_measured_is_repeated_within_the_tolerance_and_kept() -> None:
    compared = list(compare(COSTS, CELLS))
    assert Counter(one.replicas for one in compared) == {1: 5, 2: 5}
    assert max(miss for one in compared for miss in one.misses) <= TOLERANCE
    kept = json.loads(json.dumps([asdict(one) for one in compared])) == REPORT["compared"]
    assert kept, "deploy/scale/scale.json is of another measurement: python -m deploy.scale"


def test_cores_are_shared_alike_by_all_that_runs() -> None:
    env = simpy.Environment()
    cpu = Cpu(env, cores=2)
    ended = {}

    def run(name: str, after_s: float, seconds: float) -> Life:
        yield env.timeout(after_s)
        yield cpu.work(seconds)
        ended[name] = env.now

    for name, after_s, seconds in (("first", 0, 4), ("second", 0, 1), ("third", 0, 3), ("late", 9, 2)):
        env.process(run(name, after_s, seconds))
    env.run()
    # Three on two cores until the second has its one second, then each has its own.
    assert ended == pytest.approx({"second": 1.5, "third": 3.5, "first": 4.5, "late": 11}, abs=0.01)


def test_dearer_steps_would_be_noticed() -> None:
    dearer = replace(COSTS, step_s=2 * COSTS.step_s, row_s=2 * COSTS.row_s)
    assert max(miss for one in compare(dearer, CELLS) for miss in one.misses) > TOLERANCE


def test_a_replica_with_twice_what_it_holds_keeps_its_listeners_waiting() -> None:
    playing = [cell for cell in CELLS if cell.mode == PLAYING]
    lengths = [frames for cell in playing for part in cell.frames for frames in part]
    fitted = fit(COSTS, min(playing, key=lambda cell: (cell.replicas, cell.listeners)))
    most = REPORT["listeners_a_replica"]
    assert hold(most, fitted, lengths).is_held and not hold(2 * most, fitted, lengths).is_held


def test_a_stream_beyond_the_slots_waits_for_one() -> None:
    env = simpy.Environment()
    replica = Replica(env, COSTS, Cpu(env, COSTS.cores))
    streams = [replica.speak(200) for _ in range(SLOTS + 1)]
    env.run(0.6)  # all have come, none has ended, and the first health check is still to come
    assert replica.queued == 1 and replica.open_streams == SLOTS + 1
    env.run(simpy.AllOf(env, [one.done for one in streams]))
    assert replica.open_streams == 0
    assert all(one.first_chunk_s is not None for one in streams)


def test_the_rules_are_the_charts() -> None:
    assert Rules.of_chart() == RULES


def test_replicas_grow_as_the_rules_let_them_and_take_streams_when_they_have_started() -> None:
    env = simpy.Environment()
    made: list[Replica] = []

    def make() -> Replica:
        made.append(Replica(env, COSTS, Cpu(env, COSTS.cores), open_streams=80))
        return made[-1]

    scaler = Autoscaler(env, RULES, make, start_s=20.0)
    numbers = {}
    for at_s in (14, 34, 36, 64, 66, 200):
        env.run(at_s)
        numbers[at_s] = len(scaler.ready)
    assert numbers == {14: 2, 34: 2, 36: 4, 64: 4, 66: 8, 200: RULES.highest}
