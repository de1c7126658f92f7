"""Cases of the attention kernel beside attention that is written out, run where the kernel runs: on a GPU, or
in Triton's interpreter, which has to be asked for before anything of Triton is imported.

`python tree_attention_cases.py` prints the largest error of each case, as JSON.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import torch
from replayed import Replayed
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_PARENT, TokenTree, TreeShape
from torch import Tensor

SLOTS, KV_HEADS = 5, 2
THROUGH_A_DECODER = "through a decoder"


@dataclass(frozen=True)
class Case:
    """A step of some rows.

    Args:
        slots: of the rows.
        lengths: of the rows' slots.
        positions: that a slot has room for; above 512 it has several parts.
        shares_tree: one tree for all rows, as one expanded tensor.
    """

    slots: tuple[int, ...]
    lengths: tuple[int, ...]
    nodes: int
    groups: int
    dim: int
    positions: int
    dtype: torch.dtype
    shares_tree: bool = True

    @property
    def name(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        tree = "one tree" if self.shares_tree else "own trees"
        return (
            f"{len(self.slots)} rows, {self.nodes} nodes, {self.groups} a head, {self.dim} wide, "
            f"{self.positions} positions, {kind}, {tree}"
        )


WIDE, NARROW, HALF = torch.float32, torch.bfloat16, torch.float16
CASES = (
    Case((0,), (0,), 1, 1, 16, 40, WIDE),
    Case((3,), (39,), 1, 4, 64, 40, WIDE),
    Case((1, 2, 3), (5, 0, 64), 1, 3, 32, 100, WIDE),
    Case((4, 0, 2), (65, 1, 99), 8, 3, 32, 130, WIDE),
    Case((4, 0, 2), (65, 1, 99), 5, 3, 32, 130, WIDE, shares_tree=False),
    Case((1, 4), (63, 200), 33, 4, 16, 300, WIDE, shares_tree=False),
    Case((2, 0), (128, 17), 7, 4, 128, 160, NARROW),
    Case((2, 0), (128, 17), 7, 2, 64, 160, HALF, shares_tree=False),
    Case((0, 1, 2, 3), (511, 512, 513, 3), 4, 2, 32, 1100, WIDE),
    Case((3, 1), (1024, 1090), 9, 3, 64, 1100, WIDE, shares_tree=False),
    Case((3, 1), (700, 1090), 9, 3, 64, 1100, NARROW),
    Case((2,), (1500,), 1, 8, 64, 1600, NARROW),
)


def error_of(case: Case, device: str) -> float:
    """The largest difference from attention in float64 over the same rounded keys and values."""
    from talkahead.backbone.tree_attention_kernel import attend

    generator = torch.Generator().manual_seed(len(case.name))
    count, heads = len(case.slots), KV_HEADS * case.groups
    # A step's queries are the first heads of a wider product.
    product = torch.randn((count, case.nodes, heads + 2 * KV_HEADS, case.dim), generator=generator)
    product *= 2 * case.dim**-0.5
    kv = torch.randn((2, SLOTS, KV_HEADS, case.positions, case.dim), generator=generator).to(case.dtype)
    slots, lengths = torch.tensor(case.slots), torch.zeros(SLOTS, dtype=torch.int64)
    lengths[slots] = torch.tensor(case.lengths)
    trees = torch.stack([_tree(case.nodes, generator) for _ in range(1 if case.shares_tree else count)])
    ancestors = trees.to(device).expand(count, -1, -1)
    # What no mask lets anything see is there, and finite; it may be large.
    for slot in range(SLOTS):
        kv[:, slot, :, int(lengths[slot]) + case.nodes :] = 1e4
    queries = product.to(device)[:, :, :heads]
    moved = (one.to(device) for one in (kv[0], kv[1], slots, lengths))
    attended = attend(queries, *moved, ancestors)
    expected = _written_out(product[:, :, :heads].to(case.dtype), kv, slots, lengths, ancestors.cpu())
    return float((attended.cpu().double() - expected).abs().max())


def _tree(nodes: int, generator: torch.Generator) -> Tensor:
    """bool [N, N] of a random tree."""
    seen = torch.eye(nodes, dtype=torch.bool)
    for node in range(1, nodes):
        seen[node] |= seen[int(torch.randint(node, (1,), generator=generator))]
    return seen


def _written_out(queries: Tensor, kv: Tensor, slots: Tensor, lengths: Tensor, ancestors: Tensor) -> Tensor:
    """Row by row and head by head, in float64."""
    attended = torch.zeros(queries.shape, dtype=torch.float64)
    nodes, groups = queries.shape[1], queries.shape[2] // kv.shape[2]
    for row, slot in enumerate(slots.tolist()):
        length = int(lengths[slot])
        seen = torch.cat([torch.ones((nodes, length), dtype=torch.bool), ancestors[row]], dim=1)
        for head in range(queries.shape[2]):
            keys, values = kv[:, slot, head // groups, : length + nodes].double()
            scores = (queries[row, :, head].double() @ keys.T).masked_fill(~seen, -torch.inf)
            attended[row, :, head] = torch.softmax(scores, dim=-1) @ values
    return attended


def decoder_error() -> float:
    """The largest difference that the kernel makes to a decoder's logits, over steps of many sizes."""
    from talkahead.backbone.tree_attention_kernel import attend

    chance, both = random.Random(1), [_decoder(), _decoder()]
    vars(both[1])["_kernel"] = attend
    prompts = torch.randn((SLOTS, 30, both[0].hidden_size), generator=torch.Generator().manual_seed(2))
    for one in both:
        one.prefill(list(range(SLOTS)), prompts, [30, 1, 17, 8, 25])
    error = 0.0
    for nodes in (1, 4, 3, 1):
        slots = chance.sample(range(SLOTS), 3)
        shape = TreeShape((ROOT_PARENT, *(chance.randrange(node) for node in range(1, nodes))))
        tree, rows = TokenTree(torch.randint(40, (3, nodes, 1)), shape), Rows.of(slots)
        logits = [one.score(tree, rows).logits for one in both]
        error = max(error, float((logits[0] - logits[1]).abs().max() / logits[0].abs().max()))
        accepted = Accepted(
            torch.zeros((3, 1), dtype=torch.int64), torch.ones(3, dtype=torch.int64), tree.ids[:, :1]
        )
        for one in both:
            one.commit(accepted, tree.shape, rows)
    return error


def _decoder() -> SlotDecoder:
    torch.manual_seed(3)
    config = DecoderConfig(40, 39, 32, 48, 2, 6, KV_HEADS, 16, max_position_embeddings=128)
    state = Llama(config).requires_grad_(False).state_dict()
    return SlotDecoder(config, state, num_slots=SLOTS, max_positions=60, max_nodes=4, graphs=Replayed())


if __name__ == "__main__":
    errors = {case.name: error_of(case, "cpu") for case in CASES}
    print(json.dumps({**errors, THROUGH_A_DECODER: decoder_error()}))
