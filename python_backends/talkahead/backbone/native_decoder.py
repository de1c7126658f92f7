"""The Llama decoder that serves on CPUs: one C call per forward, over the same slots as `SlotDecoder`.

A row's logits are bitwise the same alone or among neighbours, in any slot, as a step or as a tree's node
(`native/decoder.c`). In float32, weights that bfloat16 holds exactly are read as bfloat16; where the CPU has
tiles for that, floats enter products as three bfloat16 values that add up to them. In bfloat16,
weights, keys, values and what enters a product are rounded to it; sums, norms and the residual stream stay
float32. int8 is bfloat16 but for the weights and what they are multiplied with: whole numbers, with a scale
for each output and for each row. int4 is int8 but for the weights: whole numbers of four bits, with a scale
for each output of 32 neighbouring inputs.

Shapes: S running rows, N nodes of a tree, B prompts of at most P rows, T rows of all, D hidden size,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import addressof, byref, pointer
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from talkahead.backbone.arena import Arena
from talkahead.backbone.cached_decoder import CachedDecoder
from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, NARROWING, NORM
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.backbone.native_matrix import INT4, MatrixPacker, is_narrow, weight_bytes
from talkahead.backbone.native_team import helpers_of
from talkahead.backbone.panel_cache import PanelCache
from talkahead.backbone.rope import rope_angles
from talkahead.backbone.shortlist import Shortlist
from talkahead.generation_config import CLOSING_FRAMES, AlignmentHead, AlignmentWindow
from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeCall, NativeLibrary, NativeUnavailable, load_library
from talkahead.speculation.contracts import Accepted, Scored
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape

SOURCE = Path(__file__).parent / "native" / "decoder.c"
_Layer, _Model, _Batch, _Scoring, _Committing = (
    native_struct(SOURCE, name) for name in ("layer", "model", "batch", "scoring", "committing")
)
_PAIRS, _BYTES, _TILES = 1, 2, 4
"""What `talkahead_abilities` is the sum of."""
_NEEDED = {torch.float32: 0, torch.bfloat16: _PAIRS, torch.int8: _BYTES, INT4: _BYTES}
"""What of these it must have."""
_TILE = 32
"""bfloat16 values of a tile's row: heads whose size is a whole multiple of it attend in tiles."""
_KEPT = 32
"""Bursts of rows and tree shapes, which stay good as lengths are only ever written in place."""
VECTOR = 16
"""Sizes must be whole multiples of it: the widest vectors of any CPU."""


class _Wanted(IntEnum):
    """What a forward over rows tells, as in `batch.h`."""

    LAST_ROWS = 1
    LAST_LOGITS = 2


def _batch(
    slots: Tensor,
    lengths: Tensor,
    sizes: Tensor,
    parents: Tensor | None = None,
    trees: Tensor | None = None,
) -> NativeStruct:
    """From slots and sizes, int64 [B], and parents, int32 [N], unless every sequence is a chain.

    Args:
        lengths: int64 [slots], what each slot holds when C reads it.
        trees: int64 [B], where each sequence's parents begin, -1 for a chain; without it all have the same.
    """
    batch = _Batch(
        count=len(slots),
        slots=slots.data_ptr(),
        lengths=lengths.data_ptr(),
        sizes=sizes.data_ptr(),
        parents=None if parents is None else parents.data_ptr(),
        trees=None if trees is None else trees.data_ptr(),
    )
    batch.held = (slots, lengths, sizes, parents, trees)  # as long as C points at them
    return batch


class NativeDecoder(CachedDecoder):
    """Scores token trees over slot-indexed KV; the interface of `SlotDecoder`.

    Raises NativeUnavailable where it cannot be compiled or the shape does not fill vectors.

    Args:
        config: the model's shape; its sizes are multiples of 16.
        state: weights under their Hugging Face names.
        num_slots: streams that can hold KV at once.
        max_positions: prompt and frames of one slot.
        max_nodes: the largest tree; that many scratch positions lie after each slot.
        precision: float32, or bfloat16, int8 or int4 where the CPU `can_multiply` it.
        memory_bytes: that its weights and slots may take; raises TalkaheadError where they take more.
        head_of: a decoder of the same head and precision, whose packed head is read in place of a copy.
        alignment_head: see `CachedDecoder`.
        threads: that share a forward, the caller's among them; what is computed does not depend on it.
        is_guessing: of a large vocabulary it tells the logits that promise the most; all others are -inf.
    """

    def __init__(
        self,
        config: DecoderConfig,
        state: Mapping[str, Tensor],
        *,
        num_slots: int,
        max_positions: int,
        max_nodes: int = 1,
        precision: torch.dtype = torch.float32,
        memory_bytes: int | None = None,
        head_of: NativeDecoder | None = None,
        alignment_head: AlignmentHead | None = None,
        threads: int = 1,
        is_guessing: bool = False,
    ) -> None:
        num_positions = max_positions + max_nodes
        memory = self.count_memory(config, state[EMBEDDINGS].dtype, num_slots, num_positions, precision)
        self._library = decoder_library()
        self._precision = precision
        self._packing = _packing_of(precision)
        super().__init__(
            config,
            num_slots=num_slots,
            max_positions=max_positions,
            max_nodes=max_nodes,
            dtype=torch.float32,
            device=torch.device("cpu"),
            memory=memory,
            memory_bytes=memory_bytes,
            alignment_head=alignment_head,
        )
        self.cache: PanelCache = PanelCache(
            config.num_hidden_layers,
            num_slots,
            config.num_key_value_heads,
            num_positions,
            words=config.head_dim // self._packing,
            panel=self._library.talkahead_panel(),
            compact=self._compact,
        )
        self._in_tiles = has_tiles()
        self._packer = MatrixPacker(self._library, precision, in_tiles=self._in_tiles)
        self._embeddings = _table(state[EMBEDDINGS])
        self._head_of = head_of  # C points at its panels
        self._narrowing = self._load_narrowing(state)
        self._head, self._shortlist = self._load_head(state[HEAD], is_guessing=is_guessing)
        self._model = self._load(state)
        self._trees = lru_cache(maxsize=_KEPT)(partial(_tree_batch, self.cache.lengths))
        self.share(threads)

    @staticmethod
    def count_memory(
        config: DecoderConfig, kept: torch.dtype, num_slots: int, num_positions: int, precision: torch.dtype
    ) -> DecoderMemory:
        """`kept`: the type of the weights in their file; float32 may turn out to be narrow, and is counted as
        if it were not. Raises NativeUnavailable as the decoder does."""
        _refuse(config, precision)
        kept_bytes = 2 if kept is torch.bfloat16 else 4
        return DecoderMemory.of(
            config,
            weight_bytes=kept_bytes if precision is torch.float32 else weight_bytes(precision),
            embedding_bytes=kept_bytes,
            kv_bytes=4 // _packing_of(precision),
            num_slots=num_slots,
            num_positions=num_positions,
            panel=decoder_library().talkahead_panel(),
        )

    @property
    def precision(self) -> torch.dtype:
        """Of products."""
        return self._precision

    @property
    def fetches_ahead(self) -> bool:
        """Whether steps depend on `reach`: few rows meet weights of four bits without tiles, everywhere."""
        return not self._in_tiles or self._precision is INT4

    @property
    def reach(self) -> Tensor:
        """int64 [rows + 1]: the packer's, by the rows of a step; may be written."""
        return self._packer.reach

    @property
    def addresses(self) -> dict[str, int]:
        """Of the model, its workspace and the slots' lengths, for native callers of `talkahead_decode`."""
        return {
            "model": addressof(self._model),
            "workspace": self._workspace.data_ptr(),
            "lengths": self.cache.lengths.data_ptr(),
        }

    @property
    def decode_address(self) -> int | None:
        """Of `talkahead_decode`."""
        return self._library.address("talkahead_decode")

    def share(self, threads: int, prompts: int | None = None) -> None:
        """Have so many threads share each forward. Before anybody who keeps `addresses` or calls is told.

        Args:
            prompts: of those over prompts; None: as many. If they are more, the others' cores are borrowed:
                who helps is at once behind whoever wants one.
        """
        self._model.helpers = helpers_of(threads)
        self._reader = _Model.from_buffer_copy(self._model)  # what it points at, `_model` holds
        readers = prompts or threads
        self._reader.helpers = helpers_of(readers, yields=readers > threads)
        needed = (self._library.talkahead_workspace_bytes(byref(one)) for one in (self._model, self._reader))
        self._workspace = Arena().take(max(needed))

    # Weights

    def _load(self, state: Mapping[str, Tensor]) -> NativeStruct:
        config, cache = self.config, self.cache
        count = config.num_hidden_layers
        self._layers = (_Layer * count)(*(self._load_layer(state, index) for index in range(count)))
        angles = rope_angles(config, self.max_positions + self.max_nodes)  # [positions, d / 2]
        return _Model(
            num_layers=count,
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            dim=config.head_dim,
            intermediate=config.intermediate_size,
            num_slots=self.num_slots,
            num_positions=self.max_positions + self.max_nodes,
            packing=self._packing,
            entering=2 if self._precision is torch.bfloat16 else 1,
            in_tiles=self._in_tiles and self._packing == 2 and config.head_dim % _TILE == 0,
            epsilon=config.rms_norm_eps,
            layers=self._layers,
            final_norm=self._packer.keep(state[NORM]) if NORM in state else None,
            narrowing=None if self._narrowing is None else pointer(self._narrowing),
            head=self._head,
            shortlist=None if self._shortlist is None else pointer(self._shortlist),
            cosines=self._packer.keep(angles.cos()),
            sines=self._packer.keep(angles.sin()),
            cache=cache.address,
            helpers=helpers_of(1),
            **self._alignment_fields(),
        )

    def _alignment_fields(self) -> dict[str, int | None]:
        """What C notes while it scores, and moves as it moves keys."""
        alignment = self.alignment
        window = (alignment and alignment.head.window) or AlignmentWindow(0, 0)
        fields = asdict(window) | {"closing_frames": CLOSING_FRAMES, "eos": self.eos}
        if alignment is None:
            return fields | {"aligned_layer": -1, "aligned_head": -1, "prompts": None, "aligned": None}
        return fields | {
            "aligned_layer": alignment.head.layer,
            "aligned_head": alignment.head.head,
            "prompts": alignment.prompts.data_ptr(),
            "aligned": alignment.rows.data_ptr(),
        }

    def _load_narrowing(self, state: Mapping[str, Tensor]) -> NativeStruct | None:
        if self._head_of is not None:
            return self._head_of._narrowing
        if NARROWING not in state:
            return None
        refuse_uneven({"output_rank": len(state[NARROWING])})
        return self._packer.pack(state[NARROWING])

    def _load_head(self, weights: Tensor, *, is_guessing: bool) -> tuple[NativeStruct, NativeStruct | None]:
        if self._head_of is not None:
            return self._head_of._head, self._head_of._shortlist
        found = Shortlist.of(weights, self._library) if is_guessing else None
        if found is None:
            return self._packer.pack(weights), None
        self._order = found.order  # C points at it
        return self._packer.pack(found.rows), found.as_native(self._packer.pack(found.means))

    def _load_layer(self, state: Mapping[str, Tensor], index: int) -> NativeStruct:
        config, packer = self.config, self._packer

        def read(*names: str, kind: str = "weight") -> Tensor:
            return torch.cat([state[f"model.layers.{index}.{name}.{kind}"] for name in names])

        def joined(kind: str) -> Tensor:
            return _interleaved(read("mlp.gate_proj", kind=kind), read("mlp.up_proj", kind=kind))

        def pack(has_bias: bool, *names: str) -> NativeStruct:
            return packer.pack(read(*names), read(*names, kind="bias") if has_bias else None)

        def norm(is_there: bool, name: str) -> int | None:
            return packer.keep(read(name)) if is_there else None

        return _Layer(
            attention_norm=norm(True, "input_layernorm"),
            mlp_norm=norm(True, "post_attention_layernorm"),
            query_norm=norm(config.has_qk_norm, "self_attn.q_norm"),
            key_norm=norm(config.has_qk_norm, "self_attn.k_norm"),
            qkv=pack(config.has_qkv_bias, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            out=pack(config.attention_bias, "self_attn.o_proj"),
            gate_up=packer.pack(joined("weight"), joined("bias") if config.mlp_bias else None),
            down=pack(config.mlp_bias, "mlp.down_proj"),
        )

    # Forwards

    @torch.inference_mode()
    def prefill(
        self, slots: list[int], prompts: Tensor, lengths: list[int], *, all_hidden: bool = False
    ) -> Scored:
        """Fill slots from position 0 and score what follows each prompt: logits [B, 1, V], hidden [B, 1, D].

        Args:
            slots: B different slots; what they held is gone.
            prompts: [B, P, D] embeddings, row b valid up to lengths[b].
            all_hidden: hidden [B, P, D] are of all rows; after a prompt's length they are zero.
        """
        where, counts = torch.tensor(slots), torch.tensor(lengths)
        is_valid = torch.arange(prompts.shape[1]) < counts[:, None]
        x = prompts[is_valid].to(torch.float32)
        batch = _batch(where, torch.zeros_like(self.cache.lengths), counts)
        if self.alignment is not None:
            self.alignment.prompts[where] = counts
        logits, states = self._decode(x, batch, _Wanted.LAST_LOGITS if all_hidden else _Wanted.LAST_ROWS)
        self.cache.lengths[where] = counts
        if not all_hidden:
            return Scored(logits[:, None], states[:, None])
        hidden = torch.zeros(*prompts.shape)
        hidden[is_valid] = states
        return Scored(logits[:, None], hidden)

    @torch.inference_mode()
    def read_on(self, slot: int, rows: Tensor, before: int) -> Scored:
        """Rows [P, D] of a prompt after those `before` that its slot holds: logits [1, 1, V] of what follows
        the last, hidden [1, P, D] of all; bitwise as they are where the prompt is read at once."""
        count = len(rows)
        if not before:
            return self.prefill([slot], rows[None], [count], all_hidden=True)
        if self.alignment is not None:
            self.alignment.prompts[slot] = before + count
        return self.extend(rows[None], torch.tensor([count]), Rows.of([slot]))

    def extend(self, embedded: Tensor, counts: Tensor, rows: Rows) -> Scored:
        """`SlotDecoder.extend`; padding is not computed, and its hidden states are zero."""
        count, width = embedded.shape[:2]
        lengths = self.cache.lengths
        x = embedded.to(torch.float32)
        if int(counts.min()) == width:
            batch = _batch(rows.slots, lengths, counts)
            flat = x.flatten(0, 1).contiguous()
            logits, hidden = self._decode(flat, batch, _Wanted.LAST_LOGITS)
            scored = Scored(logits[:, None], hidden.view(count, width, -1))
        else:
            is_fed = torch.arange(width) < counts[:, None]
            active = counts > 0
            batch = _batch(rows.slots[active], lengths, counts[active])
            flat = x[is_fed]
            logits, packed = self._decode(flat, batch, _Wanted.LAST_LOGITS)
            hidden = torch.zeros(count, width, self.hidden_size)
            hidden[is_fed] = packed
            scored = Scored(logits[(active.cumsum(0) - 1).clamp_min(0), None], hidden)
        lengths.index_add_(0, rows.slots, counts)
        return scored

    @torch.inference_mode()
    def score(self, tree: TokenTree, rows: Rows) -> Scored:
        """One forward over the rows' trees: each node sees its slot's past and its own ancestors.

        The nodes' KV lies after the slots' lengths until `commit` keeps some of it.
        """
        batch = self._trees(rows, tree.shape)
        return self._score(tree.ids, batch, (tree.num_rows, tree.num_nodes))

    @torch.inference_mode()
    def score_mixed(self, trees: Sequence[TokenTree], rows: Rows) -> list[Scored]:
        """`score` of trees of several shapes, in one forward: the first ones are of the first rows."""
        tokens = torch.cat([tree.ids.flatten() for tree in trees])
        layout = _layout(tuple((tree.num_rows, tree.shape) for tree in trees))
        batch = _batch(rows.slots, self.cache.lengths, layout.sizes, layout.parents, layout.trees)
        scored = self._score(tokens, batch, (len(tokens),))
        shapes = [(tree.num_rows, tree.num_nodes) for tree in trees]
        counts = [count * nodes for count, nodes in shapes]
        parts = zip(
            shapes, torch.split(scored.logits, counts), torch.split(scored.hidden, counts), strict=True
        )
        return [Scored(one.view(*shape, -1), other.view(*shape, -1)) for shape, one, other in parts]

    def score_call(self, tree: TokenTree, rows: Rows, scored: Scored) -> NativeCall:
        """`score` of what the tree and the rows hold each time, into the same place."""
        batch, ids = _tree_batch(self.cache.lengths, rows, tree.shape), tree.ids
        given = _Scoring(
            model=pointer(self._model),
            memory=self._workspace.data_ptr(),
            embeddings=self._embeddings.data_ptr(),
            is_narrow=self._embeddings.dtype is torch.bfloat16,
            tokens=ids.data_ptr(),
            batch=pointer(batch),
            hidden=scored.hidden.data_ptr(),
            logits=scored.logits.data_ptr(),
        )
        return self._library.call("talkahead_score_again", given, ids, batch, scored)

    def commit_call(self, accepted: Accepted, shape: TreeShape, rows: Rows) -> NativeCall:
        """`commit` of what was accepted each time."""
        given = _Committing(
            model=pointer(self._model),
            count=len(accepted.counts),
            most=accepted.path.shape[1],
            slots=rows.slots.data_ptr(),
            counts=accepted.counts.data_ptr(),
            paths=None if shape.is_chain else accepted.path.data_ptr(),
            lengths=self.cache.lengths.data_ptr(),
        )
        return self._library.call("talkahead_commit_again", given, accepted, rows)

    def _compact(self, slots: Tensor, lengths: Tensor, counts: Tensor, paths: Tensor) -> None:
        self._library.talkahead_compact(
            byref(self._model),
            len(slots),
            slots.data_ptr(),
            lengths.data_ptr(),
            counts.data_ptr(),
            paths.data_ptr(),
            paths.shape[1],
        )

    def _score(self, tokens: Tensor, batch: NativeStruct, shape: tuple[int, ...]) -> Scored:
        """All rows of a forward over tokens, one for each of `shape`."""
        tokens = tokens.contiguous()
        scored = Scored(torch.empty(*shape, self.vocab_size), torch.empty(*shape, self.hidden_size))
        failed = self._library.talkahead_score(
            byref(self._model),
            self._workspace.data_ptr(),
            self._embeddings.data_ptr(),
            self._embeddings.dtype is torch.bfloat16,
            tokens.data_ptr(),
            byref(batch),
            scored.hidden.data_ptr(),
            scored.logits.data_ptr(),
        )
        if failed:
            raise IndexError("rows do not fit their slots, or tokens are not of the vocabulary")
        return scored

    def _decode(self, x: Tensor, batch: NativeStruct, wanted: _Wanted) -> tuple[Tensor, Tensor]:
        """Logits [B, V] and hidden states [B or T, D] of rows x [T, D], those of prompts."""
        hidden = torch.empty(len(x) if wanted is _Wanted.LAST_LOGITS else batch.count, self.hidden_size)
        logits = torch.empty(batch.count, self.vocab_size)
        failed = self._library.talkahead_decode(
            byref(self._reader),
            self._workspace.data_ptr(),
            x.data_ptr(),
            byref(batch),
            wanted,
            hidden.data_ptr(),
            logits.data_ptr(),
        )
        if failed:
            raise IndexError("rows do not fit their slots")
        return logits, hidden


def _refuse(config: DecoderConfig, precision: torch.dtype) -> None:
    refuse_uneven(
        {
            "hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "head_dim": config.head_dim,
        }
    )
    if not can_multiply(precision):
        raise NativeUnavailable(f"this CPU does not multiply {name_of(precision)} (avx512)")


def _packing_of(precision: torch.dtype) -> int:
    """Values in a word of queries, keys and values: bfloat16, as they are read once for each row, but for
    float32."""
    return 1 if precision is torch.float32 else 2


def _table(embeddings: Tensor) -> Tensor:
    """A copy, as narrow as it can be without a loss."""
    dtype = torch.bfloat16 if is_narrow(embeddings) else torch.float32
    return embeddings.detach().to("cpu", dtype, copy=True).contiguous()


def _interleaved(gates: Tensor, ups: Tensor) -> Tensor:
    """[2 I, ...] from [I, ...] each: some gates, their ups, and so on."""
    blocks = [one.view(-1, VECTOR, *one.shape[1:]) for one in (gates, ups)]
    return torch.stack(blocks, 1).flatten(0, 2)


def can_multiply(precision: torch.dtype) -> bool:
    """Whether this CPU does; raises NativeUnavailable where nothing can be compiled."""
    return precision in _NEEDED and not _NEEDED[precision] & ~_abilities()


def narrowest_precision() -> torch.dtype:
    """Of the products that this CPU has, four bits aside, which are heard; raises NativeUnavailable where
    nothing can be compiled."""
    return next(filter(can_multiply, (torch.int8, torch.bfloat16, torch.float32)))


def has_tiles() -> bool:
    """Whether this CPU has tiles, and the system lets this process use them."""
    return bool(_abilities() & _TILES)


def _abilities() -> int:
    return int(decoder_library().talkahead_abilities())


def name_of(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")


def refuse_uneven(sizes: Mapping[str, int]) -> None:
    """Raises NativeUnavailable for sizes that do not fill vectors."""
    for name, size in sizes.items():
        if size % VECTOR:
            raise NativeUnavailable(f"{name} is {size}, not a multiple of {VECTOR}")


@dataclass(frozen=True)
class _Layout:
    """Trees of several shapes, as `_batch` takes them."""

    sizes: Tensor
    parents: Tensor
    trees: Tensor


@lru_cache(maxsize=256)
def _layout(runs: tuple[tuple[int, TreeShape], ...]) -> _Layout:
    """Of so many trees of a shape each."""
    sizes: list[int] = []
    parents: list[int] = []
    trees: list[int] = []
    for count, shape in runs:
        sizes += [len(shape)] * count
        trees += [-1 if shape.is_chain else len(parents)] * count
        parents += [] if shape.is_chain else shape.parents
    return _Layout(torch.tensor(sizes), torch.tensor(parents, dtype=torch.int32), torch.tensor(trees))


def _tree_batch(lengths: Tensor, rows: Rows, shape: TreeShape) -> NativeStruct:
    """Trees of one shape after what the rows' slots hold."""
    sizes = torch.full((len(rows.slots),), len(shape))
    return _batch(rows.slots, lengths, sizes, None if shape.is_chain else _parents(shape))


@lru_cache(maxsize=256)
def _parents(shape: TreeShape) -> Tensor:
    return torch.tensor(shape.parents, dtype=torch.int32)


def decoder_library() -> NativeLibrary:
    """Compiled on first use."""
    return load_library(SOURCE)
