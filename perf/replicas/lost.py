"""One of two replicas is lost: its server is killed, or its wire is cut. Later it is back.

Streams speak one after another through the proxy. In the middle of it, with some that speak and some that
have just asked, the first replica goes away.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import dataclass

from perf.memory import server_pid
from perf.replicas.crowd import Ending, Heard
from perf.replicas.scene import Scene, open_streams

KILLED, UNPLUGGED = "killed", "unplugged"
TOLD_WITHIN_S = {KILLED: 2.0, UNPLUGGED: 2.5}
"""Of a cut wire nothing tells: TCP's keep-alive asks after a second, and waits for another."""


@dataclass(frozen=True)
class Loss:
    """What became of all streams.

    Args:
        open_there: streams that the lost replica had open, as it told the moment before.
        cut_within_s: from the loss to the last stream's being told.
        silent: streams that were `unheard`; `silent_whole` of them were spoken all the same.
        returned_s: from the loss until the proxy sent it streams again.
        shares: streams of each replica after that.
        outages: the proxy's words where it took a replica for sick or dead; once is right.
    """

    how: str
    streams: int
    whole: int
    cut: int
    failed: int
    open_there: int
    cut_within_s: float
    silent: int
    silent_whole: int
    returned_s: float
    shares: tuple[int, int]
    outages: list[str]
    heard: list[Heard]

    @property
    def is_as_promised(self) -> bool:
        """Only those are cut that spoke on the lost replica, all others are whole, the load spreads again."""
        lost = self.failed + self.silent - self.silent_whole
        is_told = self.cut <= self.open_there and self.cut_within_s <= TOLD_WITHIN_S[self.how]
        return lost == 0 and is_told and min(self.shares) > 0 and len(self.outages) == 1

    def row(self) -> dict[str, str]:
        return {
            "lost": self.how,
            "streams": str(self.streams),
            "whole": str(self.whole),
            "cut": f"{self.cut} of {self.open_there} open there",
            "told within": f"{self.cut_within_s:.2f} s",
            "not yet heard": f"{self.silent_whole} of {self.silent} whole",
            "failed": str(self.failed),
            "back after": f"{self.returned_s:.0f} s",
            "outages": str(len(self.outages)),
            "then spread": f"{self.shares[0]} : {self.shares[1]}",
        }


def unheard(heard: Sequence[Heard], lost_s: float) -> list[Heard]:
    """Who had asked before the loss and had heard nothing when the first listener was told of it.

    What the lost one had sent may still be heard after its end, and is not said twice.
    """
    told_s = min((one.ended_s for one in heard if one.ending is Ending.CUT), default=lost_s)
    return [one for one in heard if one.asked_s < lost_s and not one.has_spoken(told_s)]


def kill(scene: Scene, streams: int) -> Loss:
    """Triton of the first replica is killed (SIGKILL). Its launcher starts it again."""
    return _lose(scene, streams, KILLED)


def unplug(scene: Scene, streams: int) -> Loss:
    """The first replica's wire is cut: nothing says so. It is plugged in once its streams have been told."""
    return _lose(scene, streams, UNPLUGGED)


def _lose(scene: Scene, streams: int, how: str) -> Loss:
    """Half of the streams until and while the first is gone, the other half when it is back."""
    crowd, half = scene.crowd, streams // 2
    early = crowd.speak(half - crowd.together)
    wait([early[len(early) // 2]])
    early += crowd.speak(crowd.together, at_once=True)
    crowd.await_asked()
    open_there = open_streams(scene.first)
    home, triton = scene.first.home, server_pid(scene.first.launcher)
    lost_s = time.monotonic()
    if how == KILLED:
        os.kill(triton, signal.SIGKILL)
    else:
        assert home is not None, "a wire of its own has only a replica in a network namespace"
        home.unplug()
    scene.await_down(0, lost_s)
    heard = [one.result() for one in early]
    if how == UNPLUGGED and home is not None:
        home.plug_in()
    returned_s = scene.await_up(0, lost_s)
    before = scene.proxy.requests()
    heard += [one.result() for one in crowd.speak(streams - half)]
    after = scene.proxy.requests()
    cut = [one for one in heard if one.ending is Ending.CUT]
    silent = unheard(heard, lost_s)
    return Loss(
        how=how,
        streams=len(heard),
        whole=sum(one.ending is Ending.WHOLE for one in heard),
        cut=len(cut),
        failed=sum(one.ending is Ending.FAILED for one in heard),
        open_there=open_there,
        cut_within_s=max((one.ended_s - lost_s for one in cut), default=0.0),
        silent=len(silent),
        silent_whole=sum(one.ending is Ending.WHOLE for one in silent),
        returned_s=returned_s,
        shares=(after[0] - before[0], after[1] - before[1]),
        outages=scene.proxy.outages(),
        heard=heard,
    )
