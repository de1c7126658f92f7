"""Replayed forwards are the ones that they replace: buckets, padding, buffers that stay where they are."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from replayed import Replayed
from talkahead.backbone.cuda_graphs import CudaGraphs
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.forward_graphs import ForwardGraphs, StepInputs
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.generation_config import AlignmentHead, AlignmentWindow
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_PARENT, TokenTree, TreeShape
from torch import Tensor

WIDTH, VOCABULARY, SLOTS, NODES = 32, 40, 6, 5
CONFIG = DecoderConfig(VOCABULARY, VOCABULARY - 1, WIDTH, 48, 2, 4, 2, 16, max_position_embeddings=128)
HEAD = AlignmentHead(1, 2, AlignmentWindow(1, 2, longest=2, closing=1))
EXACT = 1e-9


@pytest.fixture(scope="module")
def llama() -> Llama:
    torch.manual_seed(1)
    llama = Llama(CONFIG).double().eval().requires_grad_(False)
    for name, value in llama.named_parameters():
        value.uniform_(0.5, 1.5) if "norm" in name else value.mul_(5.0)
    return llama


def decoder(llama: Llama, graphs: Replayed | None = None, head: AlignmentHead | None = HEAD) -> SlotDecoder:
    return SlotDecoder(
        llama.config,
        llama.state_dict(),
        num_slots=SLOTS,
        max_positions=60,
        max_nodes=NODES,
        dtype=torch.float64,
        alignment_head=head,
        graphs=graphs,
    )


def random_tree(rows: int, chance: random.Random) -> TokenTree:
    nodes = chance.randint(1, NODES)
    shape = TreeShape((ROOT_PARENT, *(chance.randrange(node) for node in range(1, nodes))))
    tokens = [[[chance.randrange(VOCABULARY)] for _ in range(nodes)] for _ in range(rows)]
    return TokenTree(torch.tensor(tokens), shape)


def commit_somewhere(decoders: list[SlotDecoder], tree: TokenTree, rows: Rows, chance: random.Random) -> None:
    paths = tree.shape.paths[[chance.randrange(tree.num_nodes) for _ in range(tree.num_rows)]]
    accepted = Accepted(paths.clamp_min(0), (paths >= 0).sum(1), tree.ids[:, :1])
    for one in decoders:
        one.commit(accepted, tree.shape, rows)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=EXACT)


def test_steps_of_all_sizes_are_as_without_graphs(llama: Llama) -> None:
    chance, recorder = random.Random(3), Replayed()
    both = [decoder(llama), decoder(llama, recorder)]
    prompts = torch.randn((SLOTS, 9, WIDTH), dtype=torch.float64)
    for one in both:
        one.prefill(list(range(SLOTS)), prompts, [9, 3, 5, 1, 8, 2])
    for _ in range(30):
        slots = chance.sample(range(SLOTS), chance.randint(1, SLOTS))
        rows, tree = Rows.of(slots), random_tree(len(slots), chance)
        eager, replayed = (one.score(tree, rows) for one in both)
        close(replayed.logits, eager.logits)
        close(replayed.hidden, eager.hidden)
        commit_somewhere(both, tree, rows, chance)
        if min(int(one.cache.lengths.max()) for one in both) > 50:
            break
    assert recorder.replays > 5
    spoken = [one.aligned(2, 5, 20) for one in both]
    assert (spoken[0] == spoken[1]).all()


def test_trees_of_several_shapes_and_rows_that_are_added_are_as_without_graphs(llama: Llama) -> None:
    chance = random.Random(4)
    both = [decoder(llama), decoder(llama, Replayed())]
    prompts = torch.randn((SLOTS, 4, WIDTH), dtype=torch.float64)
    for one in both:
        one.prefill(list(range(SLOTS)), prompts, [4, 3, 2, 1, 4, 4])
    trees, rows = [random_tree(2, chance), random_tree(1, chance)], Rows.of([4, 0, 3])
    mixed = [one.score_mixed(trees, rows) for one in both]
    for eager, replayed in zip(*mixed, strict=True):
        close(replayed.logits, eager.logits)
    embedded = torch.randn((3, 3, WIDTH), dtype=torch.float64)
    counts = torch.tensor([3, 1, 2])
    eager, replayed = (one.extend(embedded, counts, rows) for one in both)
    close(replayed.logits, eager.logits)
    assert both[1].cache.lengths[:SLOTS].tolist() == both[0].cache.lengths.tolist()
    again = [one.score(trees[0], Rows.of([0, 3])).logits for one in both]
    close(again[1], again[0])


def test_padding_leaves_other_slots_alone(llama: Llama) -> None:
    graphed = decoder(llama, Replayed())
    graphed.prefill(list(range(SLOTS)), torch.randn((SLOTS, 4, WIDTH), dtype=torch.float64), [4] * SLOTS)
    before = graphed.cache._kv[:, :, :SLOTS].clone()
    graphed.score(
        TokenTree(torch.zeros((3, 3, 1), dtype=torch.int64), TreeShape((-1, 0, 0))), Rows.of([5, 1, 2])
    )
    untouched = [0, 3, 4]
    assert torch.equal(graphed.cache._kv[:, :, untouched], before[:, :, untouched])
    assert not torch.equal(graphed.cache._kv[:, :, [1, 2, 5]], before[:, :, [1, 2, 5]])


class Refusing(Replayed):
    """A device that takes one graph, and no more."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        if self.replays:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.replays += 1
        return super().record(work)


def test_a_device_that_refuses_is_served_eagerly_with_a_word(
    llama: Llama, caplog: pytest.LogCaptureFixture
) -> None:
    refused, eager = decoder(llama, Refusing()), decoder(llama)
    assert refused.graphs is None
    assert caplog.messages == [
        "forwards are computed one launch after another, not as graphs: operation not permitted when stream "
        "is capturing"
    ]
    prompts = torch.randn((1, 4, WIDTH), dtype=torch.float64)
    logits = []
    for one in (refused, eager):
        one.prefill([2], prompts, [4])
        logits.append(one.score(TokenTree(torch.tensor([[[3]]])), Rows.of([2])).logits)
    close(*logits)


class Summing:
    """A forward whose result says what it was given; and a recorder of it that notes where it reads."""

    def __init__(self) -> None:
        self.read_at: dict[tuple[int, int], tuple[int, ...]] = {}
        self.calls = 0

    def forward(self, inputs: StepInputs) -> tuple[Tensor, Tensor]:
        self.calls += 1
        size = (inputs.embedded.shape[0], inputs.embedded.shape[1])
        places = tuple(one.data_ptr() for one in vars(inputs).values())
        assert self.read_at.setdefault(size, places) == places
        return inputs.embedded.sum(2, keepdim=True) + inputs.slots[:, None, None], inputs.embedded

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        return Replayed().record(work)


def graphs_of(summing: Summing, rows: int = 6, nodes: int = 5) -> ForwardGraphs:
    return ForwardGraphs(
        summing.forward,
        summing,
        width=3,
        vocabulary=1,
        dtype=torch.float32,
        most_rows=rows,
        most_nodes=nodes,
        spare=99,
        device=torch.device("cpu"),
    )


def inputs_of(rows: int, nodes: int) -> StepInputs:
    shape = TreeShape(tuple(range(-1, nodes - 1)))
    return StepInputs(torch.randn((rows, nodes, 3)), torch.arange(rows), shape.depth_row, shape.ancestors)


def test_every_size_up_to_the_largest_has_a_graph_from_the_beginning() -> None:
    sizes = graphs_of(Summing()).sizes
    assert sizes == [(rows, nodes) for rows in (1, 2, 4, 6) for nodes in (1, 2, 4, 5)]


@pytest.mark.parametrize(("rows", "nodes"), [(1, 1), (3, 1), (1, 3), (5, 5), (6, 2)])
def test_a_replay_reads_what_was_brought_into_its_buffers(rows: int, nodes: int) -> None:
    summing = Summing()
    graphs = graphs_of(summing)
    for _ in range(3):
        inputs = inputs_of(rows, nodes)
        found = graphs.run(inputs)
        assert found is not None
        expected = inputs.embedded.sum(2, keepdim=True) + inputs.slots[:, None, None]
        torch.testing.assert_close(found[0], expected)
        assert torch.equal(found[1], inputs.embedded)


def test_what_no_graph_is_large_enough_for_is_computed_as_it_comes_and_counted() -> None:
    told: list[bool] = []
    graphs = graphs_of(Summing())
    graphs.tell = told.append
    assert graphs.run(inputs_of(6, 5)) is not None
    assert graphs.run(inputs_of(7, 1)) is None
    assert graphs.run(inputs_of(1, 6)) is None
    assert told == [True, False, False]


def test_rows_that_are_padding_have_the_spare_slot() -> None:
    seen: list[list[int]] = []

    class Noting(Summing):
        def forward(self, inputs: StepInputs) -> tuple[Tensor, Tensor]:
            seen.append(inputs.slots.tolist())
            return super().forward(inputs)

    graphs = graphs_of(Noting())
    graphs.run(replace(inputs_of(3, 1), slots=torch.tensor([5, 0, 2])))
    assert seen[-1] == [5, 0, 2, 99]
    graphs.run(inputs_of(6, 1))
    graphs.run(inputs_of(5, 1))
    assert seen[-1] == [0, 1, 2, 3, 4, 99]


@pytest.mark.parametrize(
    ("dtype", "device", "has_graphs", "tolerance"),
    [
        (torch.bfloat16, "cpu", True, 0.05),
        *(
            pytest.param(dtype, "cuda", has_graphs, tolerance, marks=pytest.mark.needs("gpu"))
            for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.05))
            for has_graphs in (False, True)
        ),
    ],
)
def test_as_they_are_served_forwards_are_near_those_in_double_precision(
    llama: Llama, dtype: torch.dtype, device: str, has_graphs: bool, tolerance: float
) -> None:
    """Largest difference of logits, in the largest logit: on a GPU by its kernel and its graphs."""
    chance, recorder = random.Random(5), Replayed() if device == "cpu" else CudaGraphs(torch.device(device))
    exact = decoder(llama, head=None)
    served = SlotDecoder(
        llama.config,
        {name: value.float() for name, value in llama.state_dict().items()},
        **{"num_slots": SLOTS, "max_positions": 60, "max_nodes": NODES, "dtype": dtype, "device": device},
        graphs=recorder if has_graphs else None,
    )
    prompts = torch.randn((SLOTS, 4, WIDTH), generator=torch.Generator().manual_seed(6))
    exact.prefill(list(range(SLOTS)), prompts.double(), [4, 3, 2, 1, 4, 4])
    served.prefill(list(range(SLOTS)), prompts, [4, 3, 2, 1, 4, 4])
    for _ in range(10):
        slots = chance.sample(range(SLOTS), chance.randint(1, SLOTS))
        tree = random_tree(len(slots), chance)
        expected = exact.score(tree, Rows.of(slots)).logits
        there = TokenTree(tree.tokens.to(device), tree.shape)
        logits = served.score(there, Rows.of(slots, device)).logits
        error = (logits.cpu().double() - expected).abs().max() / expected.abs().max()
        assert error < tolerance
