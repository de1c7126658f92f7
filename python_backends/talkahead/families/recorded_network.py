"""Networks in torch whose calls are recorded as graphs, where the device records."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.backbone.recorded_function import RecordedFunction
from talkahead.families.network_engines import Network


class RecordedNetwork:
    """A `Network`.

    Args:
        shared: see `RecordedFunction`.
    """

    def __init__(self, network: Network, recorder: GraphRecorder, shared: Collection[int] = ()) -> None:
        self._network = network
        self._call = RecordedFunction(network, recorder, shared)

    @property
    def precision(self) -> torch.dtype:
        return self._network.precision

    def __call__(self, *given: Tensor) -> Sequence[Tensor]:
        return self._call(*given)
