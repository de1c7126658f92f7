"""One talker of random weights on a device, in each way that its forwards can be computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.cuda_graphs import CudaGraphs
from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree

from perf.gpu.compiled import CompiledDecoder
from perf.shapes.forward import bushy


@dataclass(frozen=True)
class Way:
    """How forwards are computed.

    Args:
        has_graphs: recorded once and replayed, as they are served.
        has_kernel: attention by the kernel over slots, as it is served; else torch's, over whole slots.
        is_compiled: by torch.compile.
    """

    name: str
    has_graphs: bool
    has_kernel: bool
    is_compiled: bool = False


EAGER, SERVED = Way("eager, kernel", False, True), Way("graphs, kernel", True, True)
WAYS = (
    SERVED,
    EAGER,
    Way("graphs, torch's attention", True, False),
    Way("eager, torch's attention", False, False),
    Way("compiled, torch's attention", False, False, is_compiled=True),
    Way("compiled, graphs, kernel", True, True, is_compiled=True),
)
"""What is served first: a machine with a GPU is often lent for minutes."""


@dataclass(frozen=True)
class Sizes:
    """
    Args:
        cache: positions that every slot holds.
        room: positions after these.
        rows, nodes: at most.
    """

    cache: int
    room: int
    rows: int
    nodes: int


class DeviceTalker:
    """
    Args:
        recorder: of graphs, where the way has them; None: of CUDA.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        way: Way,
        sizes: Sizes,
        device: torch.device,
        dtype: torch.dtype = torch.bfloat16,
        recorder: GraphRecorder | None = None,
    ) -> None:
        self.config, self.device, self.sizes, self.way = checkpoint.config, device, sizes, way
        made = CompiledDecoder if way.is_compiled else SlotDecoder
        self.decoder = made(
            checkpoint.config,
            checkpoint,
            num_slots=sizes.rows,
            max_positions=sizes.cache + sizes.room,
            max_nodes=sizes.nodes,
            dtype=dtype,
            device=device,
            graphs=(recorder or CudaGraphs(device)) if way.has_graphs else None,
            uses_kernel=way.has_kernel,
        )

    @property
    def is_as_named(self) -> bool:
        """Whether the device took graphs and kernel, where the way has them; a CPU has no kernel."""
        decoder, way = self.decoder, self.way
        has_graphs = decoder.graphs is not None or not way.has_graphs
        return has_graphs and (decoder.has_kernel or not way.has_kernel or self.device.type == "cpu")

    def fill(self) -> None:
        """Every slot, with a prompt of its own."""
        prompt = torch.randn(1, self.sizes.cache, self.config.hidden_size)
        for slot in range(self.sizes.rows):
            self.decoder.prefill([slot], prompt, [self.sizes.cache])

    def step(self, rows: int, nodes: int) -> Callable[[], object]:
        """A forward of a tree for each of `rows` slots; it leaves what they hold as it was."""
        tokens = torch.randint(self.config.vocab_size, (rows, nodes, 1), device=self.device)
        tree, running = TokenTree(tokens, bushy(nodes)), Rows.of(range(rows), self.device)
        return lambda: self.decoder.score(tree, running)

    def bytes_read(self, rows: int) -> int:
        """By a step at least: all weights but the rows of embeddings that it is not fed, and what slots
        hold."""
        memory = self.decoder.memory
        kv = memory.slot * self.sizes.cache // memory.num_positions
        return memory.weights + rows * kv


def milliseconds(call: Callable[[], object], device: torch.device) -> float:
    """Of one call, until the device is done."""
    began = perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e3 * (perf_counter() - began)


def read_rate(device: torch.device, num_bytes: int = 1 << 30, repeats: int = 10) -> float:
    """Bytes a second that the device reads from its memory, at best."""
    values = torch.ones(num_bytes // 4, dtype=torch.float32, device=device)
    return num_bytes / min(1e-3 * milliseconds(values.sum, device) for _ in range(repeats))
