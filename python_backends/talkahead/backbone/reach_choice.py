"""How far ahead of their use a talker's weights are fetched: as this CPU is fastest with them.

A Xeon's own guesses end with each page: weights of 4 bits arrive in 0.5 to 0.8 of the time where they are
asked for. An EPYC of Zen 4 guesses better: unasked, steps of 1, 2, 3 streams of the shipped talker take 0.85,
0.70, 0.65 of their time, and those of 4 and 5 take 1.2 to 1.3 times as long; of a billion weights, whose
panels are longer, all of them take 0.7 to 0.9. Where others keep its L3 busy, steps of 1, 2, 3 take 0.86,
0.81, 0.95 of that with one line of four, far ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import mean

import torch

from talkahead.backbone.backbone import Backbone
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape

_WORTH = 0.97
"""Of the time, at most, with another reach than the usual one."""
_SPARSE = -2
"""Of the farthest usual reach: where one line of several is fetched, the CPU guesses the others."""
_BUDGET_S, _LEAST, _MOST = 0.5, 2, 20
"""For all steps that are timed; and how often each is."""


def settle_reach(backbone: Backbone, clock: Callable[[], float] = time.perf_counter) -> None:
    """Once a talker is loaded and knows its threads, and nobody speaks in it yet. Devices fetch for
    themselves, and so do tiles.

    Steps of as many rows as meet weights together are timed with each usual reach, with one line of several
    (a reach below 0), and with none, in turn: of streams, or, where there are fewer slots, of a stream's
    nodes.
    """
    if not isinstance(backbone, NativeDecoder) or not backbone.fetches_ahead:
        return
    usual_ones = backbone.reach.tolist()
    reaches = sorted({_SPARSE * max(usual_ones), 0, *usual_ones})
    most = max(backbone.num_slots, backbone.max_nodes)
    for rows in range(1, min(len(backbone.reach), most + 1)):
        usual = int(backbone.reach[rows])
        seconds = _seconds(backbone, rows, reaches, clock)
        best = min(reaches, key=seconds.__getitem__)
        backbone.reach[rows] = best if seconds[best] < _WORTH * seconds[usual] else usual


def reach_of(backbone: Backbone) -> tuple[int, ...]:
    """By rows; none where none is chosen."""
    if not isinstance(backbone, NativeDecoder) or not backbone.fetches_ahead:
        return ()
    return tuple(backbone.reach.tolist())


def take_reach(backbone: Backbone, reach: Sequence[int]) -> None:
    """What `reach_of` said of such a backbone, in a process before this one."""
    if reach and isinstance(backbone, NativeDecoder):
        backbone.reach.copy_(torch.tensor(reach))


def _seconds(
    decoder: NativeDecoder, rows: int, reaches: Sequence[int], clock: Callable[[], float]
) -> dict[int, float]:
    """Of a step, by reach."""
    slots = list(range(rows if rows <= decoder.num_slots else 1))
    nodes = rows // len(slots)
    decoder.prefill(slots, torch.zeros(len(slots), 1, decoder.hidden_size), [1] * len(slots))
    tokens = torch.zeros(len(slots), nodes, 1, dtype=torch.int64)
    tree, streams = TokenTree(tokens, TreeShape((-1, *[0] * (nodes - 1)))), Rows.of(slots)

    def took() -> float:
        before = clock()
        decoder.score(tree, streams)
        return clock() - before

    samples: dict[int, list[float]] = {reach: [] for reach in reaches}
    took()  # the first one finds nothing where it will lie
    affordable = _BUDGET_S / (len(decoder.reach) * len(reaches) * took())
    for _ in range(int(min(max(affordable, _LEAST), _MOST))):
        for reach, own in samples.items():
            decoder.reach[rows] = reach
            own.append(took())
    for slot in slots:
        decoder.release(slot)
    return {reach: _undisturbed(own) for reach, own in samples.items()}


def _undisturbed(samples: Sequence[float]) -> float:
    """The mean of the lower half: other models load meanwhile, and reaches differ by a tenth. Beside such
    loads, on an EPYC of Zen 4, 20 samples each have the reach for 4 rows right 96 to 100 times in 100 so, and
    66 to 82 by their medians; for fewer and more rows always."""
    return mean(sorted(samples)[: max(len(samples) // 2, 1)])
