"""Listeners of simulated replicas, each of whom hears one utterance after another."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import simpy

from deploy.scale.costs import PLAYING, Cell, Costs
from deploy.scale.cpu import Cpu
from deploy.scale.replica import Life, Replica, Stream

_STAGGER_S = 3.0
"""Within which listeners who play come, as `perf.streams` has it."""


@dataclass
class Crowd:
    """Listeners, and the streams that they have asked for, and heard to their end.

    Args:
        replicas: of which a stream goes where fewest are open, as the proxy chooses. There may come more.
        lengths: frames of utterances, of which they draw.
        after_s: before the next request.
        is_playing: the next request comes when the last has played.
    """

    env: simpy.Environment
    replicas: Sequence[Replica]
    lengths: Sequence[int]
    is_playing: bool
    frames_per_s: float
    after_s: float
    asked: list[Stream] = field(default_factory=list)
    heard: list[Stream] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(0)

    def join(self, until_s: float, after_s: float = 0.0) -> simpy.Process:
        """One more, who asks for the last time before then."""
        return self.env.process(self._listen(until_s, after_s))

    def _listen(self, until_s: float, after_s: float) -> Life:
        yield self.env.timeout(after_s)
        while self.env.now < until_s:
            replica = min(self.replicas, key=lambda one: one.open_streams)
            stream = replica.speak(self._random.choice(self.lengths))
            self.asked.append(stream)
            yield stream.done
            self.heard.append(stream)
            yield self.env.timeout(self.after_s)
            if self.is_playing:
                yield self.env.timeout(max(0.0, stream.played_until_s - self.env.now))


@dataclass(frozen=True)
class Repeated:
    """A measured load, simulated."""

    audio_s_per_s: float
    first_chunk_p50_s: float


def repeat(cell: Cell, costs: Costs) -> Repeated:
    """Slice by slice, as it was measured."""
    waits: list[float] = []
    audio_s = wall_s = 0.0
    for frames in cell.frames:
        env = simpy.Environment()
        cpu = Cpu(env, costs.cores)
        replicas = [Replica(env, costs, cpu) for _ in range(cell.replicas)]
        crowd = Crowd(env, replicas, frames, cell.mode == PLAYING, costs.frames_per_s, costs.after_s)
        spread_s = min(_STAGGER_S, cell.slice_s / 2) if crowd.is_playing else 0.0
        listeners = [
            crowd.join(cell.slice_s, random.Random(one).uniform(0, spread_s)) for one in range(cell.listeners)
        ]
        # Then the load is no longer full.
        env.run(simpy.AnyOf(env, listeners))
        wall_s += env.now
        audio_s += sum(one.heard for one in crowd.asked) / costs.frames_per_s
        env.run(simpy.AllOf(env, listeners))
        waits += [one.first_chunk_s for one in crowd.heard if one.first_chunk_s is not None]
    return Repeated(audio_s / wall_s, sorted(waits)[len(waits) // 2])
