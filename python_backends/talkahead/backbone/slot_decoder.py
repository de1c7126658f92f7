"""The Llama decoder that serves: every stream owns a slot of one KV cache, and one forward scores all running slots.

Shapes: S running slots, N nodes of a tree, D hidden size, H query heads, G query heads per KV head (K of them),
d head size, L positions looked at, P prompt rows, B prompts, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from talkahead.speculation.contracts import Accepted, Scored
from talkahead.speculation.token_tree import TokenTree, TreeShape

_EXTENT_STEP = 32
"""Padded attention spans are multiples of this, so that few shapes occur."""


class LlamaShape(Protocol):
    """The fields of a Hugging Face Llama config that the decoder reads."""

    @property
    def hidden_size(self) -> int: ...
    @property
    def num_hidden_layers(self) -> int: ...
    @property
    def num_attention_heads(self) -> int: ...
    @property
    def num_key_value_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def rms_norm_eps(self) -> float: ...
    @property
    def rope_theta(self) -> float: ...
    @property
    def eos_token_id(self) -> int: ...


@dataclass(frozen=True)
class _Layer:
    """A layer's weights, transposed for `x @ W`, with the norm before each folded in."""

    qkv: Tensor  # [D, (H + 2 K) d], RoPE pairs adjacent, 1 / sqrt(d) in the query's part
    out: Tensor  # [H d, D]
    gate_up: Tensor  # [D, 2 I]
    down: Tensor  # [I, D]


class SlotDecoder:
    """Scores token trees over slot-indexed KV `[layer, 2, slot, head, position, dim]`, allocated once.

    Args:
        config: the model's shape.
        state: weights under their Hugging Face names.
        num_slots: streams that can hold KV at once.
        max_positions: prompt and frames of one slot.
        max_nodes: the largest tree; that many scratch positions lie behind each slot.
        dtype: float32, float64, or bfloat16, which keeps activations and KV in float32 and narrows the products.
    """

    def __init__(
        self,
        config: LlamaShape,
        state: Mapping[str, Tensor],
        *,
        num_slots: int,
        max_positions: int,
        max_nodes: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config = config
        self.num_slots = num_slots
        self.max_positions = max_positions
        self.max_nodes = max_nodes
        self.device = torch.device(device)
        self.dtype = torch.float32 if dtype is torch.bfloat16 else dtype
        self._product_dtype = dtype
        self._heads = config.num_attention_heads
        self._kv_heads = config.num_key_value_heads
        self._dim = config.head_dim
        self._span = max_positions + max_nodes
        self._load(state)
        self._kv = torch.zeros(
            (config.num_hidden_layers, 2, num_slots, self._kv_heads, self._span, self._dim),
            dtype=self.dtype,
            device=self.device,
        )
        self._bind_views()
        self.lengths = torch.zeros(num_slots, dtype=torch.int64, device=self.device)

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    @property
    def hidden_size(self) -> int:
        return self.config.hidden_size

    @property
    def eos(self) -> int:
        return self.config.eos_token_id

    @property
    def kv_bytes(self) -> int:
        return self._kv.numel() * self._kv.element_size()

    # Weights

    def _load(self, state: Mapping[str, Tensor]) -> None:
        def weight(name: str) -> Tensor:
            return state[name].detach().to(self.device, torch.float64)

        self._embeddings = weight("model.embed_tokens.weight").to(self.dtype)
        self._final_norm = weight("model.norm.weight").mul(math.sqrt(self.hidden_size)).to(self.dtype)
        self._head = self._stored(weight("lm_head.weight"))
        self._layers = tuple(
            self._load_layer(lambda name, prefix=f"model.layers.{index}.": weight(prefix + name))
            for index in range(self.config.num_hidden_layers)
        )
        # |x| / sqrt(D) is the root mean square; epsilon joins it as the other leg of a right triangle.
        self._norm_leg = torch.tensor(
            math.sqrt(self.config.rms_norm_eps * self.hidden_size), dtype=self.dtype, device=self.device
        )
        angles = torch.outer(
            torch.arange(self._span, dtype=torch.float64),
            self.config.rope_theta ** (-torch.arange(0, self._dim, 2, dtype=torch.float64) / self._dim),
        )
        rotations = torch.polar(torch.ones_like(angles), angles)
        wide = torch.complex128 if self.dtype is torch.float64 else torch.complex64
        self._rotations = rotations.to(self.device, wide)  # [positions, d / 2]

    def _load_layer(self, weight: _Reader) -> _Layer:
        scale = math.sqrt(self.hidden_size)
        before_attention = weight("input_layernorm.weight") * scale
        before_mlp = weight("post_attention_layernorm.weight") * scale
        qkv = torch.cat(
            [
                _adjacent_pairs(weight("self_attn.q_proj.weight"), self._dim) / math.sqrt(self._dim),
                _adjacent_pairs(weight("self_attn.k_proj.weight"), self._dim),
                weight("self_attn.v_proj.weight"),
            ]
        )
        gate_up = torch.cat([weight("mlp.gate_proj.weight"), weight("mlp.up_proj.weight")])
        return _Layer(
            qkv=self._stored(qkv * before_attention),
            out=self._stored(weight("self_attn.o_proj.weight")),
            gate_up=self._stored(gate_up * before_mlp),
            down=self._stored(weight("mlp.down_proj.weight")),
        )

    def _stored(self, matrix: Tensor) -> Tensor:
        return matrix.t().contiguous().to(self._product_dtype)

    def _bind_views(self) -> None:
        layers = self.config.num_hidden_layers
        rows = self.num_slots * self._kv_heads
        by_row = self._kv.view(layers, 2, rows, self._span, self._dim)
        self._keys = tuple(by_row[layer, 0] for layer in range(layers))  # [slots K, positions, d]
        self._values = tuple(by_row[layer, 1] for layer in range(layers))
        self._flat = tuple(self._kv[layer].view(-1, self._dim) for layer in range(layers))
        # Where (key or value, head) of slot 0 starts in a layer's flat rows, [2 K].
        starts = torch.arange(2)[:, None] * rows + torch.arange(self._kv_heads)
        self._starts = (starts * self._span).flatten().to(self.device)

    # Building blocks

    def _product(self, x: Tensor, matrix: Tensor) -> Tensor:
        if self._product_dtype is self.dtype:
            return torch.mm(x, matrix)
        return torch.mm(x.to(self._product_dtype), matrix).to(self.dtype)

    def _added_product(self, base: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
        if self._product_dtype is self.dtype:
            return torch.addmm(base, x, matrix)
        return base + torch.mm(x.to(self._product_dtype), matrix)

    def _normed(self, x: Tensor) -> Tensor:
        """x / RMS(x) / sqrt(D): the weight and the factor are folded into the next matrix."""
        return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self._norm_leg)

    def _projected(self, x: Tensor, layer: _Layer, rotations: Tensor) -> Tensor:
        """Rotated queries and keys, and values: [rows, H + 2 K, d] from x [rows, D], rotations [rows, 1, d / 2]."""
        qkv = self._product(self._normed(x), layer.qkv).view(-1, self._heads + 2 * self._kv_heads, self._dim)
        turning = qkv[:, : self._heads + self._kv_heads].unflatten(-1, (-1, 2))
        torch.view_as_complex(turning).mul_(rotations)
        return qkv

    def _fed_forward(self, x: Tensor, attended: Tensor, layer: _Layer) -> Tensor:
        x = self._added_product(x, attended, layer.out)
        gate, up = self._product(self._normed(x), layer.gate_up).chunk(2, dim=-1)
        return self._added_product(x, functional.silu(gate).mul_(up), layer.down)

    def _read_out(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(logits, hidden) of x [rows, D]; hidden is what transformers calls the last hidden state."""
        hidden = self._normed(x) * self._final_norm
        return self._product(hidden, self._head), hidden

    # Prefill

    @torch.inference_mode()
    def prefill(self, slots: list[int], prompts: Tensor, lengths: list[int]) -> Scored:
        """Fill slots from position 0 and score what follows each prompt.

        Args:
            slots: B different slots; what they held is gone.
            prompts: [B, P, D] embeddings, row b valid up to lengths[b]. Padding changes nothing: no valid row looks
                right, and no later step looks beyond a slot's length.

        Returns:
            logits [B, 1, V] and hidden [B, 1, D] at each prompt's last row.
        """
        batch, span, width = prompts.shape
        x = prompts.to(self.device, self.dtype).reshape(-1, width)
        rotations = self._rotations[:span].repeat(batch, 1)[:, None]
        where = torch.tensor(slots, device=self.device)
        kept = torch.tensor(lengths, device=self.device)
        for index, layer in enumerate(self._layers):
            qkv = self._projected(x, layer, rotations).view(batch, span, -1, self._dim).transpose(1, 2)
            queries, keys, values = qkv.split([self._heads, self._kv_heads, self._kv_heads], dim=1)
            self._kv[index, 0, where, :, :span] = keys
            self._kv[index, 1, where, :, :span] = values
            attended = functional.scaled_dot_product_attention(
                queries, keys, values, is_causal=True, scale=1.0, enable_gqa=self._heads != self._kv_heads
            )
            x = self._fed_forward(x, attended.transpose(1, 2).reshape(batch * span, -1), layer)
        self.lengths[where] = kept
        last = x.view(batch, span, width)[torch.arange(batch, device=self.device), kept - 1]
        logits, hidden = self._read_out(last)
        return Scored(logits[:, None], hidden[:, None])

    # Step

    @torch.inference_mode()
    def score(self, tree: TokenTree, rows: slice) -> Scored:
        """One forward over the trees of slots `rows`: each node sees its slot's past and its own ancestors.

        The nodes' KV lies behind the slots' lengths until `commit` keeps some of it.
        """
        count, nodes = tree.num_rows, tree.num_nodes
        lengths = self.lengths[rows]
        x = self._embeddings[tree.tokens[:, :, 0].flatten()]
        rotations = self._rotations[self._positions(lengths, tree.shape)][:, None]
        written = self._written_rows(lengths, rows, nodes)
        span = self._extent(rows, nodes)
        bias = self._bias(lengths, tree.shape, span)
        kv_rows = slice(rows.start * self._kv_heads, rows.stop * self._kv_heads)
        for index, layer in enumerate(self._layers):
            qkv = self._projected(x, layer, rotations)
            self._flat[index].index_copy_(0, written, qkv[:, self._heads :].reshape(-1, self._dim))
            attended = self._attended(
                self._grouped(qkv[:, : self._heads], count, nodes),
                self._keys[index][kv_rows, :span],
                self._values[index][kv_rows, :span],
                bias,
            )
            x = self._fed_forward(x, self._ungrouped(attended, count, nodes), layer)
        logits, hidden = self._read_out(x)
        return Scored(logits.view(count, nodes, -1), hidden.view(count, nodes, -1))

    def _positions(self, lengths: Tensor, shape: TreeShape) -> Tensor:
        if shape.is_root_alone:
            return lengths
        return (lengths[:, None] + torch.tensor(shape.depths, device=self.device)).flatten()

    def _written_rows(self, lengths: Tensor, rows: slice, nodes: int) -> Tensor:
        """Rows of a layer's flat cache that the nodes' keys and values go to, [S N 2 K]."""
        slots = torch.arange(rows.start, rows.stop, device=self.device)
        base = slots * (self._kv_heads * self._span) + lengths
        if nodes > 1:
            base = (base[:, None] + torch.arange(nodes, device=self.device)).flatten()
        return (base[:, None] + self._starts).flatten()

    def _extent(self, rows: slice, nodes: int) -> int:
        """Positions that attention looks at: exact for one row, else the longest rounded up."""
        longest = int(self.lengths[rows].max()) + nodes
        if rows.stop - rows.start == 1:
            return longest
        return min(-(-longest // _EXTENT_STEP) * _EXTENT_STEP, self._span)

    def _bias(self, lengths: Tensor, shape: TreeShape, span: int) -> Tensor | None:
        """Additive mask [S K, G N, span], or None when one row sees exactly its own past."""
        count, nodes = len(lengths), len(shape)
        if count == 1 and nodes == 1:
            return None
        beyond = torch.arange(span, device=self.device) - lengths[:, None]  # [S, span], 0 at node 0
        if nodes == 1:
            hidden = (beyond > 0)[:, None]
        else:
            past_nodes_rest = functional.pad(~shape.ancestors.to(self.device), (1, 0), value=False)
            past_nodes_rest = functional.pad(past_nodes_rest, (0, 1), value=True)
            hidden = past_nodes_rest[:, beyond.clamp(-1, nodes) + 1].transpose(0, 1)  # [S, N, span]
        bias = torch.zeros(hidden.shape, dtype=self.dtype, device=self.device).masked_fill_(hidden, -torch.inf)
        if nodes == 1:
            return bias.repeat_interleave(self._kv_heads, dim=0)
        groups = self._heads // self._kv_heads
        return bias.repeat_interleave(self._kv_heads, dim=0).repeat(1, groups, 1)

    def _grouped(self, queries: Tensor, count: int, nodes: int) -> Tensor:
        """[S N, H, d] to [S K, G N, d]: the queries that share a KV head are one batch entry."""
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
        """Written out, because for one query row it beats the fused kernel, whose blocks stay empty."""
        looking = keys.transpose(1, 2)
        scores = torch.bmm(queries, looking) if bias is None else torch.baddbmm(bias, queries, looking)
        return torch.bmm(torch.softmax(scores, dim=-1), values)

    @torch.inference_mode()
    def commit(self, accepted: Accepted, shape: TreeShape, rows: slice) -> None:
        """Keep the KV of the accepted path, right behind what was there; the rest is scratch again."""
        if not shape.is_chain:
            self._compact(accepted, rows)
        self.lengths[rows] += accepted.counts

    def _compact(self, accepted: Accepted, rows: slice) -> None:
        steps = torch.arange(accepted.path.shape[1], device=self.device)
        valid = steps < accepted.counts[:, None]
        source = torch.where(valid, accepted.path, steps) + self.lengths[rows, None]  # [S, M]
        target = (steps + self.lengths[rows, None])[None, None, :, None, :, None]
        target = target.expand(*self._kv.shape[:2], len(source), self._kv_heads, -1, self._dim)
        held = self._kv[:, :, rows]
        kept = held.gather(4, source[None, None, :, None, :, None].expand(target.shape))
        held.scatter_(4, target, kept)

    # Rows

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Slot `target` takes over what `source` holds."""
        length = int(self.lengths[source])
        self._kv[:, :, target, :, :length] = self._kv[:, :, source, :, :length]
        self.lengths[target] = length
        self.lengths[source] = 0

    @torch.inference_mode()
    def swap(self, first: int, second: int) -> None:
        length = int(self.lengths[[first, second]].max())
        held = self._kv[:, :, first, :, :length].clone()
        self._kv[:, :, first, :, :length] = self._kv[:, :, second, :, :length]
        self._kv[:, :, second, :, :length] = held
        self.lengths[[first, second]] = self.lengths[[second, first]]

    def release(self, slot: int) -> None:
        self.lengths[slot] = 0


class _Reader(Protocol):
    def __call__(self, name: str) -> Tensor: ...


def _adjacent_pairs(matrix: Tensor, dim: int) -> Tensor:
    """Reorder each head's rows so that the two halves that RoPE rotates together become neighbours.

    Scores do not change, since queries and keys are reordered alike.
    """
    heads = matrix.view(-1, 2, dim // 2, matrix.shape[1])
    return heads.transpose(1, 2).reshape(matrix.shape)
