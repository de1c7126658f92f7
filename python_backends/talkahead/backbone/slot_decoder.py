"""The Llama decoder that serves: streams own slots of one KV cache, one forward scores all running slots.

Shapes: S running rows, N nodes of a tree, D hidden size, H query heads, K KV heads with G query heads each,
d head size, P prompt rows, B prompts, T rows of all prompts together, V vocabulary.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from talkahead.backbone.cached_decoder import CachedDecoder
from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, NARROWING, NORM
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.backbone.forward_graphs import ForwardGraphs, GraphRecorder, StepInputs
from talkahead.backbone.rope import rope_angles
from talkahead.backbone.slot_cache import SlotCache
from talkahead.backbone.tree_attention import AttentionShape, kernel_for
from talkahead.generation_config import AlignmentHead
from talkahead.speculation import host_reads
from talkahead.speculation.contracts import Accepted, Scored
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_PARENT, TokenTree, TreeShape

_LOG = logging.getLogger(__name__)
_EXTENT_STEP = 32
"""Padded attention spans are multiples of this, so that few shapes occur."""


@dataclass(frozen=True)
class _Projection:
    """x @ matrix + bias."""

    matrix: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class _Layer:
    """A layer's weights, with the norm before each folded in; biases and norms where the model has them."""

    qkv: _Projection  # [D, (H + 2 K) d], RoPE pairs adjacent, 1 / sqrt(d) in the query's part
    qk_norm: Tensor | None  # [H + K, d], of heads, with the same order and factor; then none is in the query
    out: _Projection  # [H d, D]
    gate_up: _Projection  # [D, 2 I]
    down: _Projection  # [I, D]


@dataclass(frozen=True)
class _Pattern:
    """What a forward has to know of trees, of one shape for all rows or of one for each."""

    depths: Tensor  # int64 [N] or [S, N]
    ancestors: Tensor  # bool [N, N] or [S, N, N]


@lru_cache(maxsize=64)
def _mixed_pattern(runs: tuple[tuple[int, TreeShape], ...], device: torch.device) -> _Pattern:
    """Of so many trees of a shape each, padded to the largest; padding sees itself."""
    rows, nodes = sum(count for count, _ in runs), max(len(shape) for _, shape in runs)
    depths = torch.zeros((rows, nodes), dtype=torch.int64)
    ancestors = torch.eye(nodes, dtype=torch.bool).repeat(rows, 1, 1)
    first = 0
    for count, shape in runs:
        own = slice(first, first + count)
        depths[own, : len(shape)] = shape.depth_row
        ancestors[own, : len(shape), : len(shape)] = shape.ancestors
        first += count
    return _Pattern(depths.to(device), ancestors.to(device))


class SlotDecoder(CachedDecoder):
    """Scores token trees over slot-indexed KV `[layer, 2, slot, head, position, dim]`, allocated once.

    Args:
        config: the model's shape.
        state: weights under their Hugging Face names.
        num_slots: streams that can hold KV at once.
        max_positions: prompt and frames of one slot.
        max_nodes: the largest tree; that many scratch positions lie after each slot.
        dtype: float32, float64, or bfloat16, which narrows products, keys and values; the rest is float32.
        memory_bytes: that its weights and slots may take; raises TalkaheadError where they take more.
        head_of: a decoder of the same head, type and device, whose head is read in place of a copy.
        alignment_head: see `CachedDecoder`.
        graphs: records forwards of all sizes of a step now, to be replayed; one slot more is made for what
            they are padded with. None: each is computed as it comes, and so they are where recording fails.
        uses_kernel: whether attention may have a kernel of its own, where one fits.
        has_one_size: graphs are of the largest step alone, and prompts are filled in one by one: how a row is
            rounded does not depend on its company then, nor on how much is drafted.

    Attributes:
        graphs: these, or None.
        recorder: by which whole steps may be recorded too; None where forwards are not, or are of one size.
    """

    def __init__(
        self,
        config: DecoderConfig,
        state: Mapping[str, Tensor],
        *,
        num_slots: int,
        max_positions: int,
        max_nodes: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        memory_bytes: int | None = None,
        head_of: SlotDecoder | None = None,
        alignment_head: AlignmentHead | None = None,
        graphs: GraphRecorder | None = None,
        uses_kernel: bool = True,
        has_one_size: bool = False,
    ) -> None:
        num_positions = max_positions + max_nodes
        super().__init__(
            config,
            num_slots=num_slots,
            max_positions=max_positions,
            max_nodes=max_nodes,
            dtype=torch.float32 if dtype is torch.bfloat16 else dtype,
            device=torch.device(device),
            memory=self.count_memory(
                *(config, state[EMBEDDINGS].dtype, num_slots, num_positions, dtype),
                spare_slots=0 if graphs is None else 1,
            ),
            memory_bytes=memory_bytes,
            alignment_head=alignment_head,
            spare_slots=0 if graphs is None else 1,
        )
        self.cache: SlotCache = SlotCache(
            config.num_hidden_layers,
            num_slots + self.spare_slots,
            config.num_key_value_heads,
            num_positions,
            config.head_dim,
            dtype=dtype,
            device=self.device,
        )
        self._product_dtype = dtype
        self._heads = config.num_attention_heads
        self._kv_heads = config.num_key_value_heads
        self._dim = config.head_dim
        self._load(state, head_of)
        attention = AttentionShape(self._heads, self._kv_heads, self._dim, num_positions, max_nodes)
        self._kernel = kernel_for(self.device, dtype, attention) if uses_kernel else None
        self._has_one_size = has_one_size
        self.graphs = None if graphs is None else self._record(graphs)
        self.recorder = None if self.graphs is None or has_one_size else graphs

    @property
    def has_kernel(self) -> bool:
        """Whether attention of steps has its own."""
        return self._kernel is not None

    def _record(self, recorder: GraphRecorder) -> ForwardGraphs | None:
        """None, and a line in the log, where the device refuses; what it takes then is the eager way."""
        try:
            return self._recorded(recorder)
        except RuntimeError as error:
            if self._has_one_size:
                raise  # what was promised could not be kept
            _LOG.warning("forwards are computed one launch after another, not as graphs: %s", error)
            return None

    @torch.inference_mode()
    def _recorded(self, recorder: GraphRecorder) -> ForwardGraphs:
        return ForwardGraphs(
            lambda inputs: self._forward(inputs, Rows(inputs.slots)),
            recorder,
            width=self.hidden_size,
            vocabulary=self.vocab_size,
            dtype=self.dtype,
            most_rows=self.num_slots,
            most_nodes=self.max_nodes,
            spare=self.num_slots,
            device=self.device,
            has_one_size=self._has_one_size,
        )

    @staticmethod
    def count_memory(
        config: DecoderConfig,
        kept: torch.dtype,
        num_slots: int,
        num_positions: int,
        dtype: torch.dtype,
        *,
        spare_slots: int = 0,
    ) -> DecoderMemory:
        """`kept`: the type of the weights in their file."""
        return DecoderMemory.of(
            config,
            weight_bytes=dtype.itemsize,
            embedding_bytes=kept.itemsize,
            kv_bytes=dtype.itemsize,
            num_slots=num_slots,
            num_positions=num_positions,
            spare_slots=spare_slots,
        )

    # Weights

    def _load(self, state: Mapping[str, Tensor], head_of: SlotDecoder | None) -> None:
        def weight(name: str) -> Tensor:
            return state[name].detach().to(self.device, torch.float64)

        self._embeddings = state[EMBEDDINGS].detach().to(self.device, copy=True)
        scale = math.sqrt(self.hidden_size)
        self._final_norm = weight(NORM).mul(scale).to(self.dtype) if NORM in state else None
        if head_of is None:
            names = (NARROWING, HEAD) if NARROWING in state else (HEAD,)
            self._head = tuple(
                _Projection(self._stored(state[name].detach().to(self.device))) for name in names
            )
        else:
            self._head = head_of._head
        self._layers = tuple(
            self._load_layer(lambda name, prefix=f"model.layers.{index}.": weight(prefix + name))
            for index in range(self.config.num_hidden_layers)
        )
        self._sqrt_eps_term = self._leg(self.hidden_size)
        self._head_leg = self._leg(self._dim)
        angles = rope_angles(self.config, self.max_positions + self.max_nodes)
        rotations = torch.polar(torch.ones_like(angles), angles)
        wide = torch.complex128 if self.dtype is torch.float64 else torch.complex64
        self._rotations = rotations.to(self.device, wide)  # [positions, d / 2]

    def _load_layer(self, weight: _Reader) -> _Layer:
        config, scale = self.config, math.sqrt(self.hidden_size)
        before_attention = weight("input_layernorm.weight") * scale
        before_mlp = weight("post_attention_layernorm.weight") * scale

        def bias(is_there: bool, *names: str) -> Tensor | None:
            return torch.cat([weight(f"{name}.bias") for name in names]).to(self.dtype) if is_there else None

        qkv = self._joined(weight, "weight").mul_(before_attention)
        gate_up = torch.cat([weight("mlp.gate_proj.weight"), weight("mlp.up_proj.weight")]).mul_(before_mlp)
        return _Layer(
            qkv=_Projection(
                self._stored(qkv),
                self._joined(weight, "bias").to(self.dtype) if config.has_qkv_bias else None,
            ),
            qk_norm=self._head_norms(weight).to(self.dtype) if config.has_qk_norm else None,
            out=_Projection(
                self._stored(weight("self_attn.o_proj.weight")),
                bias(config.attention_bias, "self_attn.o_proj"),
            ),
            gate_up=_Projection(self._stored(gate_up), bias(config.mlp_bias, "mlp.gate_proj", "mlp.up_proj")),
            down=_Projection(
                self._stored(weight("mlp.down_proj.weight")), bias(config.mlp_bias, "mlp.down_proj")
            ),
        )

    def _joined(self, weight: _Reader, kind: str) -> Tensor:
        """Weights or biases of queries, keys and values, [(H + 2 K) d, ...]."""
        query, key, value = (weight(f"self_attn.{name}_proj.{kind}") for name in "qkv")
        query = _adjacent_pairs(query, self._dim)
        if not self.config.has_qk_norm:
            query = query / math.sqrt(self._dim)
        return torch.cat([query, _adjacent_pairs(key, self._dim), value])

    def _head_norms(self, weight: _Reader) -> Tensor:
        """Of queries and keys, [H + K, d], times sqrt(d), as they come after `_normed`; queries are divided
        by as much for their scores."""
        query, key = (_adjacent_pairs(weight(f"self_attn.{name}_norm.weight"), self._dim) for name in "qk")
        key = key * math.sqrt(self._dim)
        return torch.cat([query.expand(self._heads, -1), key.expand(self._kv_heads, -1)])

    def _leg(self, size: int) -> Tensor:
        """|x| / sqrt(size) is the root mean square; epsilon joins it as the other leg of a right triangle."""
        leg = math.sqrt(self.config.rms_norm_eps * size)
        return torch.tensor(leg, dtype=self.dtype, device=self.device)

    def _stored(self, matrix: Tensor) -> Tensor:
        """Transposed, for `x @ W`."""
        return matrix.to(self._product_dtype).t().contiguous()

    # Building blocks

    def _product(self, x: Tensor, by: _Projection) -> Tensor:
        if self._product_dtype is self.dtype:
            return torch.mm(x, by.matrix) if by.bias is None else torch.addmm(by.bias, x, by.matrix)
        product = torch.mm(x.to(self._product_dtype), by.matrix).to(self.dtype)
        return product if by.bias is None else product.add_(by.bias)

    def _added_product(self, base: Tensor, x: Tensor, by: _Projection) -> Tensor:
        if self._product_dtype is self.dtype:
            added = torch.addmm(base, x, by.matrix)
        else:
            added = base + torch.mm(x.to(self._product_dtype), by.matrix)
        return added if by.bias is None else added.add_(by.bias)

    def _normed(self, x: Tensor, leg: Tensor) -> Tensor:
        """x / RMS(x) / sqrt(size): the weight and the factor are folded into what comes next."""
        return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), leg)

    def _projected(self, x: Tensor, layer: _Layer, rotations: Tensor) -> Tensor:
        """Rotated queries and keys, then values, [T, H + 2 K, d]; x [T, D], rotations [T, 1, d / 2]."""
        normed = self._normed(x, self._sqrt_eps_term)
        qkv = self._product(normed, layer.qkv).view(-1, self._heads + 2 * self._kv_heads, self._dim)
        if layer.qk_norm is not None:
            heads = qkv[:, : self._heads + self._kv_heads]
            heads.copy_(self._normed(heads, self._head_leg) * layer.qk_norm)
        turning = qkv.view(*qkv.shape[:2], -1, 2)[:, : self._heads + self._kv_heads]
        torch.view_as_complex(turning).mul_(rotations)
        return qkv

    def _fed_forward(self, x: Tensor, attended: Tensor, layer: _Layer) -> Tensor:
        x = self._added_product(x, attended, layer.out)
        gate, up = self._product(self._normed(x, self._sqrt_eps_term), layer.gate_up).chunk(2, dim=-1)
        return self._added_product(x, functional.silu(gate).mul_(up), layer.down)

    def _embedded(self, tokens: Tensor) -> Tensor:
        return self._embeddings[tokens].to(self.dtype)

    def _read_out(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(logits, hidden) of x [rows, D]; hidden is what transformers calls the last hidden state."""
        hidden = self._hidden(x)
        return reduce(self._product, self._head, hidden), hidden

    def _hidden(self, x: Tensor) -> Tensor:
        return x if self._final_norm is None else self._normed(x, self._sqrt_eps_term) * self._final_norm

    # Prefill

    @torch.inference_mode()
    def prefill(
        self, slots: list[int], prompts: Tensor, lengths: list[int], *, all_hidden: bool = False
    ) -> Scored:
        """Fill slots from position 0 and score what follows each prompt.

        Padding changes nothing: only attention sees it, where no valid row looks right. Products run over the
        valid rows alone, packed one after another.

        Args:
            slots: B different slots; what they held is gone.
            prompts: [B, P, D] embeddings, row b valid up to lengths[b].
            all_hidden: whether the hidden states of all rows are wanted.

        Returns:
            logits [B, 1, V] and hidden [B, 1, D] at each prompt's last row; or hidden [B, P, D] at all, and
            zero after a prompt's length.
        """
        batch, span = prompts.shape[:2]
        if self._has_one_size and (batch > 1 or span > lengths[0]):
            return self._prefill_one_by_one(slots, prompts, lengths, all_hidden)
        counts = torch.tensor(lengths, device=self.device)
        where = torch.tensor(slots, device=self.device)
        # [T] each; what the host knows it works out, so that it need not wait for the device.
        positions = torch.cat([torch.arange(length) for length in lengths]).to(self.device)
        lines = torch.arange(batch).repeat_interleave(torch.tensor(lengths)).to(self.device)
        packed = lines * span + positions  # where each of the T rows lies among the B P
        written = self.cache.rows_at(where[lines], positions)
        rotations = self._rotations[positions][:, None]
        x = prompts.to(self.device, self.dtype).flatten(0, 1)[packed]
        padded = x.new_zeros(batch * span, self._heads + 2 * self._kv_heads, self._dim)
        for index, layer in enumerate(self._layers):
            qkv = self._projected(x, layer, rotations)
            self.cache.write(index, written, qkv[:, self._heads :])
            padded.index_copy_(0, packed, qkv)
            if self.alignment is not None and self.alignment.head.layer == index:
                self.alignment.prompts[where] = counts
                self._align_last(padded.view(batch, span, -1, self._dim), where, counts)
            x = self._fed_forward(x, self._attended_causally(padded, batch)[packed], layer)
        self.cache.lengths[where] = counts
        logits, last = self._read_out(x[counts.cumsum(0) - 1])
        if not all_hidden:
            return Scored(logits[:, None], last[:, None])
        hidden = x.new_zeros(batch * span, self.hidden_size).index_copy_(0, packed, self._hidden(x))
        return Scored(logits[:, None], hidden.view(batch, span, -1))

    def _prefill_one_by_one(
        self, slots: list[int], prompts: Tensor, lengths: list[int], all_hidden: bool
    ) -> Scored:
        span = prompts.shape[1]
        scored = [
            self.prefill([slot], prompt[None, :length], [length], all_hidden=all_hidden)
            for slot, prompt, length in zip(slots, prompts, lengths, strict=True)
        ]
        rows = span if all_hidden else 1
        hidden = [functional.pad(one.hidden, (0, 0, 0, rows - one.hidden.shape[1])) for one in scored]
        return Scored(torch.cat([one.logits for one in scored]), torch.cat(hidden))

    def _attended_causally(self, qkv: Tensor, batch: int) -> Tensor:
        """[B P, H + 2 K, d] to [B P, H d]: each row sees itself and what lies left of it."""
        heads, kv_heads = self._heads, self._kv_heads
        by_head = qkv.view(batch, -1, heads + 2 * kv_heads, self._dim).transpose(1, 2)
        attended = functional.scaled_dot_product_attention(
            by_head[:, :heads],
            by_head[:, heads : heads + kv_heads],
            by_head[:, heads + kv_heads :],
            is_causal=True,
            scale=1.0,
            enable_gqa=heads != kv_heads,
        )
        return attended.transpose(1, 2).reshape(len(qkv), -1)

    def _align_last(self, qkv: Tensor, slots: Tensor, counts: Tensor) -> None:
        """Of prompts' last rows, qkv [B, P, H + 2 K, d]."""
        assert self.alignment is not None
        last = (counts - 1)[:, None]
        queries = qkv[torch.arange(len(qkv), device=self.device)[:, None], last, self.alignment.head.head]
        self.alignment.look(queries, qkv[:, :, self._heads + self._aligned_group], slots, last)

    @property
    def _aligned_group(self) -> int:
        """The KV head of the head that is aligned."""
        assert self.alignment is not None
        return self.alignment.head.head // (self._heads // self._kv_heads)

    # Step

    def commit(self, accepted: Accepted, shape: TreeShape, rows: Rows) -> None:
        if self.alignment is not None and not shape.is_chain:
            self.alignment.compact(self.cache.lengths, accepted, rows)
        super().commit(accepted, shape, rows)

    def _lengthen(self, counts: Tensor, rows: Rows) -> None:
        """Written, not added: rows of padding share a slot, and are one stream there."""
        self.keep(self.lengths(rows) + counts, rows)

    @torch.inference_mode()
    def score(self, tree: TokenTree, rows: Rows) -> Scored:
        """One forward over the rows' trees: each node sees its slot's past and its own ancestors.

        The nodes' KV lies after the slots' lengths until `commit` keeps some of it.
        """
        shape = tree.shape.on(self.device)
        return self._score(self._embedded(tree.ids), _Pattern(shape.depth_row, shape.ancestors), rows)

    @torch.inference_mode()
    def score_mixed(self, trees: Sequence[TokenTree], rows: Rows) -> list[Scored]:
        """`score` of trees of several shapes, in one forward: the first ones are of the first rows.

        All are padded to the largest: what stands after a tree's nodes is seen by none of them.
        """
        nodes = max(tree.num_nodes for tree in trees)
        tokens = [functional.pad(tree.ids, (0, nodes - tree.num_nodes)) for tree in trees]
        pattern = _mixed_pattern(tuple((tree.num_rows, tree.shape) for tree in trees), self.device)
        scored = self._score(self._embedded(torch.cat(tokens)), pattern, rows)
        counts = [tree.num_rows for tree in trees]
        return [
            Scored(logits[:, : tree.num_nodes], hidden[:, : tree.num_nodes])
            for tree, logits, hidden in zip(
                trees, torch.split(scored.logits, counts), torch.split(scored.hidden, counts), strict=True
            )
        ]

    def extend(self, embedded: Tensor, counts: Tensor, rows: Rows) -> Scored:
        """Add rows to slots and keep them: `counts[s]` of the first layer's inputs [S, N, D] to each.

        Returns:
            logits [S, 1, V] at each slot's last row, and hidden [S, N, D] at all; where a slot got nothing,
            and after what it got, anything.
        """
        chain = TreeShape(tuple(range(ROOT_PARENT, embedded.shape[1] - 1))).on(self.device)
        scored = self._score(embedded, _Pattern(chain.depth_row, chain.ancestors), rows)
        self._lengthen(counts, rows)
        lines = torch.arange(len(counts), device=self.device)
        return Scored(scored.logits[lines, (counts - 1).clamp_min(0), None], scored.hidden)

    def _score(self, embedded: Tensor, pattern: _Pattern, rows: Rows) -> Scored:
        inputs = StepInputs(embedded, rows.slots, pattern.depths, pattern.ancestors)
        replayed = None if self.graphs is None else self.graphs.run(inputs)
        return Scored(*(replayed or self._forward(inputs, rows)))

    def _forward(self, inputs: StepInputs, rows: Rows) -> tuple[Tensor, Tensor]:
        """Logits [S, N, V] and hidden states [S, N, D]. Away from the CPU the host only asks for it."""
        embedded, pattern = inputs.embedded, _Pattern(inputs.depths, inputs.ancestors)
        count, nodes = embedded.shape[:2]
        lengths, slots = rows.take(self.cache.lengths), rows.slots
        positions = after = lengths  # [S N]: by depth for the rotation, by node for the place in the cache
        if nodes > 1:
            slots = slots.repeat_interleave(nodes)
            positions = self._after(lengths, pattern.depths)
            after = self._after(lengths, torch.arange(nodes, device=self.device))
        x = embedded.flatten(0, 1)
        rotations = self._rotations[positions][:, None]
        written = self.cache.rows_at(slots, after)
        span = self._extent(lengths, nodes)
        needs_bias = self._kernel is None or (self.alignment is not None and self.alignment.is_windowed)
        bias = self._bias(lengths, pattern, span) if needs_bias else None
        for index, layer in enumerate(self._layers):
            qkv = self._projected(x, layer, rotations)
            self.cache.write(index, written, qkv[:, self._heads :])
            far = None
            if self.alignment is not None and self.alignment.head.layer == index:
                own = qkv[:, self.alignment.head.head].view(count, nodes, -1)
                seen = self.cache.keys_of(index, self._aligned_group, rows, span)
                far = self.alignment.follow(own, seen, rows.slots, lengths, pattern.ancestors)
            queries = qkv.view(count, nodes, -1, self._dim)[:, :, : self._heads]
            if self._kernel is None or far is not None:
                grouped = self._grouped(queries)
                unseen = bias if far is None else self._near(bias, far)
                attended = self._attended(grouped, *self.cache.read(index, rows, span), unseen)
                x = self._fed_forward(x, self._ungrouped(attended, count, nodes), layer)
            else:
                sees = pattern.ancestors.expand(count, nodes, nodes)
                kept = self.cache.layer(index)
                attended = self._kernel(queries, *kept, rows.slots, self.cache.lengths, sees)
                x = self._fed_forward(x, attended.view(count * nodes, -1), layer)
        logits, hidden = self._read_out(x)
        logits = self._ended(logits.view(count, nodes, -1), rows.slots, lengths, pattern)
        return logits, hidden.view(count, nodes, -1)

    def _ended(self, logits: Tensor, slots: Tensor, lengths: Tensor, pattern: _Pattern) -> Tensor:
        """Logits [S, N, V] that leave nodes whose speech is over nothing but its end."""
        over = None if self.alignment is None else self.alignment.has_ended(slots, lengths, pattern.ancestors)
        if over is None:
            return logits
        logits = logits.masked_fill(over[..., None], -torch.inf)
        logits[..., self.eos].masked_fill_(over, 0.0)
        return logits

    def _after(self, lengths: Tensor, offsets: Tensor) -> Tensor:
        """[S N], each slot's length plus each of its N offsets, [N] or [S, N]."""
        return (lengths[:, None] + offsets).flatten()

    def _extent(self, lengths: Tensor, nodes: int) -> int:
        """Positions that attention looks at: exact for one row, else the longest rounded up; all that a slot
        has where the host does not know the lengths."""
        if not host_reads.are_free(lengths):
            return self.cache.num_positions
        longest = int(lengths.max()) + nodes
        if len(lengths) == 1:
            return longest
        return min(-(-longest // _EXTENT_STEP) * _EXTENT_STEP, self.cache.num_positions)

    def _bias(self, lengths: Tensor, pattern: _Pattern, span: int) -> Tensor | None:
        """Additive mask [S K, G N, span], or None when one row sees exactly its own past."""
        count, nodes = len(lengths), pattern.depths.shape[-1]
        if count == 1 and nodes == 1 and host_reads.are_free(lengths):
            return None
        beyond = torch.arange(span, device=self.device) - lengths[:, None]  # [S, span], 0 at node 0
        if nodes == 1:
            unseen = (beyond > 0)[:, None]  # [S, N, span]
        else:
            # Every node sees the root, and the past like the root; what lies after the nodes, none.
            columns = functional.pad(~pattern.ancestors, (0, 1), value=True)
            looked_at = beyond.clamp(0, nodes)[:, None].expand(count, nodes, span)
            unseen = columns.expand(count, nodes, nodes + 1).gather(2, looked_at)
        bias = torch.zeros(unseen.shape, dtype=self._product_dtype, device=self.device)
        bias = bias.masked_fill_(unseen, -torch.inf).repeat_interleave(self._kv_heads, dim=0)
        if nodes == 1:
            return bias
        return bias.repeat(1, self._heads // self._kv_heads, 1)

    def _near(self, bias: Tensor | None, far: Tensor) -> Tensor:
        """Bias [S K, G N, span] in which the aligned head does not see what is far, [S, N, span]."""
        assert self.alignment is not None
        (count, nodes, span), groups = far.shape, self._heads // self._kv_heads
        if bias is None:
            bias = far.new_zeros(1, dtype=self._product_dtype)
        near = bias.expand(count * self._kv_heads, groups * nodes, span).clone()
        by_head = near.view(count, self._kv_heads, groups, nodes, span)
        by_head[:, self._aligned_group, self.alignment.head.head % groups].masked_fill_(far, -torch.inf)
        return near

    def _grouped(self, queries: Tensor) -> Tensor:
        """[S, N, H, d] to [S K, G N, d]: the queries that share a KV head are one batch entry."""
        count, nodes = queries.shape[:2]
        groups = self._heads // self._kv_heads
        if nodes == 1:
            return queries.reshape(count * self._kv_heads, groups, self._dim)
        queries = queries.view(count, nodes, self._kv_heads, groups, self._dim)
        return queries.permute(0, 2, 3, 1, 4).reshape(count * self._kv_heads, groups * nodes, self._dim)

    def _ungrouped(self, attended: Tensor, count: int, nodes: int) -> Tensor:
        """[S K, G N, d] to [S N, H d]."""
        if nodes == 1:
            return attended.view(count, -1)
        groups = self._heads // self._kv_heads
        attended = attended.view(count, self._kv_heads, groups, nodes, self._dim)
        return attended.permute(0, 3, 1, 2, 4).reshape(count * nodes, -1)

    @staticmethod
    def _attended(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """Written out, because for one query row it beats the fused kernel, whose blocks stay empty. Narrow
        keys and values go through that one, whose sums are wide."""
        if keys.dtype is not queries.dtype:
            attended = functional.scaled_dot_product_attention(
                queries.to(keys.dtype)[:, None],
                keys[:, None],
                values[:, None],
                attn_mask=None if bias is None else bias[:, None],
                scale=1.0,
            )
            return attended[:, 0].to(queries.dtype)
        looking = keys.transpose(1, 2)
        scores = torch.bmm(queries, looking) if bias is None else torch.baddbmm(bias, queries, looking)
        return torch.bmm(torch.softmax(scores, dim=-1), values)


class _Reader(Protocol):
    def __call__(self, name: str) -> Tensor: ...


def _adjacent_pairs(matrix: Tensor, dim: int) -> Tensor:
    """Reorder each head's rows so that the two halves that RoPE rotates together become neighbours.

    Scores do not change, since queries and keys are reordered alike.
    """
    heads = matrix.view(-1, 2, dim // 2, *matrix.shape[1:])
    return heads.transpose(1, 2).reshape(matrix.shape)
