"""How sure a figure is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_INTERVAL = (0.025, 0.975)


def bootstrap_interval(
    figure: Callable[[Sequence[int]], float], count: int, draws: int = 1000
) -> tuple[float, float]:
    """95 % interval of a figure of `count` things, given by their indices, by drawing things again.

    Paired where the figure compares what several did with the same things. The same draws each time.
    """
    picks = np.random.default_rng(0).integers(count, size=(draws, count))
    low, high = np.quantile([figure(pick) for pick in picks], _INTERVAL)
    return float(low), float(high)
