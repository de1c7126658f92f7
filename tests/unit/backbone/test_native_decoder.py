"""The native decoder: near float64, and bitwise blind to batch, slot, padding and the shape of the work."""

from __future__ import annotations

import ctypes
import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from talkahead import native_library
from talkahead.backbone import native_decoder
from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, NARROWING
from talkahead.backbone.decoder_choice import DecoderChoice, load_decoder
from talkahead.backbone.decoder_config import DecoderConfig, Llama3Scaling
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder, can_multiply, decoder_library
from talkahead.backbone.native_matrix import GROUP, in_groups
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.errors import TalkaheadError
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree, TreeShape
from torch import Tensor

NEAR = {torch.float32: 2e-5, torch.bfloat16: 0.1, torch.int8: 0.5, torch.int4: 4.0}
"""Largest error of a logit, as a share of the logits' spread; a position that is missed errs by more."""
COARSER = 1.3
"""By which weights of bytes, and errors, are larger where the CPU's products allow pairs only so much."""
SLOTS, POSITIONS, NODES = 16, 150, 20
PRECISIONS = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
    "int4": torch.int4,
}
NEEDED = {"float32": (), "bfloat16": ("bfloat16",), "int8": ("int8",), "int4": ("int8",)}
WAYS = [
    *(
        pytest.param((one, False), id=f"{name} in panels", marks=pytest.mark.needs(*NEEDED[name]))
        for name, one in PRECISIONS.items()
    ),
    *(
        pytest.param((one, True), id=f"{name} in tiles", marks=pytest.mark.needs("amx"))
        for name, one in PRECISIONS.items()
    ),
]
CONFIGS = {
    "as served": DecoderConfig(1601, 1600, num_hidden_layers=2),
    "grouped heads": DecoderConfig(50, 49, 64, 96, 3, 4, 2, 16),
    "one head": DecoderConfig(50, 49, 64, 96, 3, 4, 1, 16),
    "wide heads": DecoderConfig(70, 69, 112, 48, 2, 2, 2, 112),
    "grouped heads of whole tiles": DecoderConfig(50, 49, 64, 96, 3, 6, 2, 96),
    "biases and head norms": DecoderConfig(
        *(50, 49, 64, 96, 3, 4, 2, 32),
        rope_scaling=Llama3Scaling(4.0, 1.0, 4.0, 64),
        attention_bias=True,
        mlp_bias=True,
        model_type="qwen3",
    ),
}
Decoder = SlotDecoder | NativeDecoder


def make_state(config: DecoderConfig, is_narrow: bool = True) -> dict[str, Tensor]:
    """Weights, as bfloat16 holds them or not, large enough for probabilities to differ."""
    torch.manual_seed(1)
    llama = Llama(config).requires_grad_(False)
    for name, value in llama.named_parameters():
        if "norm" in name:
            value.uniform_(0.5, 1.5)
        else:
            value.mul_(4.0)
    state = llama.state_dict()
    return {name: value.bfloat16().float() for name, value in state.items()} if is_narrow else state


def make_native(
    config: DecoderConfig,
    state: dict[str, Tensor],
    precision: torch.dtype = torch.float32,
    threads: int = 1,
) -> NativeDecoder:
    return NativeDecoder(
        config,
        state,
        num_slots=SLOTS,
        max_positions=POSITIONS,
        max_nodes=NODES,
        precision=precision,
        threads=threads,
    )


def make_torch(config: DecoderConfig, state: dict[str, Tensor], dtype: torch.dtype) -> SlotDecoder:
    return SlotDecoder(config, state, num_slots=SLOTS, max_positions=POSITIONS, max_nodes=NODES, dtype=dtype)


@pytest.fixture(params=WAYS)
def precision(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    """Each precision, by each way that products are computed."""
    chosen: torch.dtype
    chosen, in_tiles = request.param
    monkeypatch.setattr(native_decoder, "has_tiles", lambda: in_tiles)
    return chosen


@pytest.fixture
def served(precision: torch.dtype) -> NativeDecoder:
    return make_native(CONFIGS["as served"], make_state(CONFIGS["as served"]), precision)


def make_prompts(decoder: Decoder, *lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn((length, decoder.hidden_size), generator=generator) for length in lengths]


def prefill(decoder: Decoder, slots: list[int], prompts: list[Tensor], padding: int = 0) -> Tensor:
    """Logits [B, V]; padded with noise, which must not matter."""
    longest = max(map(len, prompts)) + padding
    padded = torch.full((len(prompts), longest, decoder.hidden_size), 3.0)
    for row, prompt in enumerate(prompts):
        padded[row, : len(prompt)] = prompt
    return decoder.prefill(slots, padded, [len(prompt) for prompt in prompts]).logits[:, 0]


def keep(decoder: Decoder, shape: TreeShape, last: list[int], rows: Rows) -> None:
    path = shape.paths[torch.tensor(last)].clamp_min(0)
    counts = torch.tensor([shape.depths[node] + 1 for node in last])
    decoder.commit(Accepted(path, counts, counts[:, None]), shape, rows)


def step(decoder: Decoder, roots: Tensor, rows: Rows) -> Tensor:
    logits = decoder.score(TokenTree(roots[:, None, None]), rows).logits[:, 0]
    keep(decoder, ROOT_ALONE, [0] * len(roots), rows)
    return logits


def random_shape(nodes: int) -> TreeShape:
    return TreeShape((-1, *(random.randrange(node) for node in range(1, nodes))))


def error(actual: Tensor, exact: Tensor) -> float:
    return float((actual.double() - exact).abs().max() / exact.std())


@pytest.mark.parametrize("is_narrow", [True, False], ids=["bfloat16 weights", "float32 weights"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_logits_are_near_those_of_double_precision(
    config: DecoderConfig, is_narrow: bool, precision: torch.dtype
) -> None:
    """Prompts longer than a chunk, then trees of all shapes, random paths kept, and plain steps between."""
    random.seed(5)
    near = NEAR[precision]
    if precision is torch.int8 and decoder_library().talkahead_most_of_pair():
        near *= COARSER
    state = make_state(config, is_narrow)
    native, exact = make_native(config, state, precision), make_torch(config, state, torch.float64)
    slots, rows = [3, 4, 5], Rows.of(range(3, 6))
    prompts = make_prompts(native, 61, 1, 30)
    assert error(prefill(native, slots, prompts), prefill(exact, slots, prompts)) < near
    for nodes in (1, 7, 1, 9, 4, 1, 8):
        tree = TokenTree(torch.randint(config.vocab_size, (3, nodes, 1)), random_shape(nodes))
        ours, theirs = native.score(tree, rows), exact.score(tree, rows)
        assert error(ours.logits, theirs.logits) < near
        assert error(ours.hidden, theirs.hidden) < near
        last = [random.randrange(nodes) for _ in slots]
        for decoder in (native, exact):
            keep(decoder, tree.shape, last, rows)


@pytest.mark.needs("int8")
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_products_of_bytes_fit_their_sums(sign: int) -> None:
    """Some CPUs add two of them in 16 bits: were weights 127 where they may be, logits would err by 0.57."""
    config = CONFIGS["as served"]
    state = {
        name: value if value.dim() < 2 or name in (HEAD, EMBEDDINGS) else sign * value.abs()
        for name, value in make_state(config).items()
    }
    native, exact = make_native(config, state, torch.int8), make_torch(config, state, torch.float64)
    prompts = [prompt.abs() + 3 for prompt in make_prompts(native, 1, 7)]
    ours, theirs = (prefill(one, [3, 4], prompts) for one in (native, exact))
    assert error(ours, theirs) < 0.1


@pytest.mark.needs("int8")
@pytest.mark.parametrize("name", ["as served", "grouped heads"])
def test_weights_of_four_bits_are_what_rounding_makes_of_them(name: str) -> None:
    """As near as weights of bytes are to those of double precision, which here are rounded alike."""
    config, state = CONFIGS[name], make_state(CONFIGS[name])
    rounded = {
        name: value if value.dim() < 2 or "embed" in name else _of_four_bits(value)
        for name, value in state.items()
    }
    native, exact = make_native(config, state, torch.int4), make_torch(config, rounded, torch.float64)
    prompts = make_prompts(native, 61, 1, 30)
    ours, theirs = (prefill(one, [3, 4, 5], prompts) for one in (native, exact))
    assert error(ours, theirs) < NEAR[torch.int8]
    assert error(ours, prefill(make_torch(config, state, torch.float64), [3, 4, 5], prompts)) > 0.3


def _of_four_bits(weight: Tensor) -> Tensor:
    whole, scales = in_groups(weight)
    return whole * scales.repeat_interleave(GROUP, 1)


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "torch"])
def test_a_head_behind_a_narrowing_is_their_product(precision: torch.dtype, is_native: bool) -> None:
    config, rank = CONFIGS["as served"], 48
    state = make_state(config)
    head = {NARROWING: torch.randn(rank, config.hidden_size), HEAD: torch.randn(config.vocab_size, rank)}
    head = {name: value.bfloat16().float() / 8 for name, value in head.items()}
    whole = {**state, HEAD: head[HEAD] @ head[NARROWING]}
    narrowed = {**state, **head}
    ours = (
        make_native(config, narrowed, precision) if is_native else make_torch(config, narrowed, torch.float64)
    )
    prompts = make_prompts(ours, 5, 17, 1)
    exact = prefill(make_torch(config, whole, torch.float64), [0, 1, 2], prompts)
    assert error(prefill(ours, [0, 1, 2], prompts), exact) < NEAR[precision]


def test_a_row_is_bitwise_the_same_in_any_company_slot_and_padding(served: NativeDecoder) -> None:
    lengths = [1 + 7 * slot % 60 for slot in range(SLOTS)]
    prompts = make_prompts(served, *lengths)
    alone = []
    for slot, prompt in enumerate(prompts):
        logits, told = prefill(served, [5], [prompt]), []
        for token in range(6):
            told.append(logits)
            logits = step(served, torch.tensor([token + slot]), Rows.of([5]))
        alone.append(torch.cat(told))
    logits = prefill(served, list(range(SLOTS)), prompts, padding=13)
    for token in range(6):
        assert torch.equal(logits, torch.stack([told[token] for told in alone]))
        logits = step(served, token + torch.arange(SLOTS), Rows.of(range(SLOTS)))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("nodes", [2, 5, NODES])
def test_a_node_is_bitwise_the_step_it_stands_for(
    config: DecoderConfig, nodes: int, precision: torch.dtype
) -> None:
    """Random trees of a batch, on even and odd pasts around whole panels, in more rows than a chunk.

    Each node equals the plain steps along its path, alone in a slot; so does what a kept path leaves behind.
    """
    random.seed(nodes)
    decoder = make_native(config, make_state(config), precision)
    pasts = [1, 2, 37, 63, 64, 65]
    prompts, rows = make_prompts(decoder, *pasts), Rows.of(range(1, 1 + len(pasts)))
    shape = random_shape(nodes)
    tokens = torch.randint(config.vocab_size, (len(pasts), nodes, 1))
    last = [random.randrange(nodes) for _ in pasts]
    prefill(decoder, list(range(1, 1 + len(pasts))), prompts)
    logits = decoder.score(TokenTree(tokens, shape), rows).logits
    keep(decoder, shape, last, rows)
    after = step(decoder, torch.arange(len(pasts)), rows)
    for row, prompt in enumerate(prompts):
        for node in {0, nodes - 1, random.randrange(nodes), last[row]}:
            prefill(decoder, [9], [prompt])
            for above in shape.paths[node][: shape.depths[node] + 1]:
                alone = step(decoder, tokens[row, above], Rows.of([9]))
            assert torch.equal(logits[row, node], alone[0])
            if node == last[row]:
                assert torch.equal(after[row], step(decoder, torch.tensor([row]), Rows.of([9]))[0])


def test_a_chain_is_bitwise_the_tree_that_it_is(served: NativeDecoder) -> None:
    """A chain's rows are answered together, a tree's one by one after their past."""
    prompts, rows, chain = make_prompts(served, 36, 37), Rows.of(range(2)), tuple(range(-1, 10))
    tokens = torch.randint(1600, (2, 12, 1))
    prefill(served, [0, 1], prompts)
    logits = served.score(TokenTree(tokens[:, :11], TreeShape(chain)), rows).logits
    forked = served.score(TokenTree(tokens, TreeShape((*chain, 3))), rows).logits
    assert torch.equal(logits, forked[:, :11])


def test_trees_of_several_shapes_are_bitwise_what_they_are_alone(served: NativeDecoder) -> None:
    """In one forward: roots, chains and trees, some of which begin in one chunk and end in the next."""
    random.seed(2)
    shapes = [ROOT_ALONE, TreeShape((-1, 0, 1)), random_shape(NODES), random_shape(9), ROOT_ALONE]
    counts = [3, 2, 4, 3, 1]
    total = sum(counts)
    prefill(served, list(range(1, 1 + total)), make_prompts(served, *range(30, 30 + total)))
    trees = [
        TokenTree(torch.randint(1600, (count, len(shape), 1)), shape)
        for count, shape in zip(counts, shapes, strict=True)
    ]
    together = served.score_mixed(trees, Rows.of(range(1, 1 + total)))
    first = 1
    for tree, scored in zip(trees, together, strict=True):
        alone = served.score(tree, Rows.of(range(first, first + tree.num_rows)))
        assert torch.equal(scored.logits, alone.logits) and torch.equal(scored.hidden, alone.hidden)
        first += tree.num_rows


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_no_bit_depends_on_the_number_of_threads(config: DecoderConfig, precision: torch.dtype) -> None:
    """Prompts longer than a chunk and of one row, trees, chains and roots, and what is kept of them."""
    state, rows = make_state(config), Rows.of(range(4, 7))

    def told(threads: int, loaded_for: int | None = None, prompts: int | None = None) -> list[Tensor]:
        random.seed(11)
        generator = torch.Generator().manual_seed(11)
        decoder = make_native(config, state, precision, loaded_for or threads)
        decoder.share(threads, prompts)
        found = [prefill(decoder, [4, 5, 6], make_prompts(decoder, 61, 1, 30))]
        for shape in (random_shape(9), ROOT_ALONE, TreeShape((-1, 0, 1, 2)), ROOT_ALONE):
            tokens = torch.randint(config.vocab_size, (3, len(shape), 1), generator=generator)
            scored = decoder.score(TokenTree(tokens, shape), rows)
            found += [scored.logits, scored.hidden]
            keep(decoder, shape, [len(shape) - 1] * 3, rows)
        return found

    alone = told(1)
    for threads in (2, 3, 7):
        assert all(torch.equal(*pair) for pair in zip(alone, told(threads), strict=True))
    for threads, loaded_for in ((1, 3), (3, 1)):
        assert all(torch.equal(*pair) for pair in zip(alone, told(threads, loaded_for), strict=True))
    for threads, prompts in ((1, 3), (3, 1)):
        assert all(torch.equal(*pair) for pair in zip(alone, told(threads, prompts=prompts), strict=True))


def test_a_prompt_row_is_bitwise_the_step_it_could_have_been(served: NativeDecoder) -> None:
    (prompt,) = make_prompts(served, 40)
    tokens = torch.arange(20)
    embedded = make_state(CONFIGS["as served"])["model.embed_tokens.weight"][tokens]
    prefill(served, [0], [prompt])
    for token in tokens:
        logits = step(served, token[None], Rows.of([0]))
    assert torch.equal(logits, prefill(served, [1], [torch.cat([prompt, embedded])]))


def test_rows_are_any_slots_in_any_order(served: NativeDecoder) -> None:
    """Bitwise what they are as neighbours, trees and what is kept of them too."""
    random.seed(3)
    lengths, shape = (70, 9, 33), random_shape(9)
    tokens = torch.randint(1600, (3, 9, 1))
    told = []
    for slots in ([0, 1, 2], [14, 3, 8]):
        rows = Rows.of(slots)
        prefill(served, slots, make_prompts(served, *lengths))
        logits = served.score(TokenTree(tokens, shape), rows).logits
        keep(served, shape, [8, 3, 5], rows)
        told.append((logits, step(served, torch.tensor([4, 2, 7]), rows), served.lengths(rows)))
    assert all(torch.equal(one, other) for one, other in zip(*told, strict=True))


def test_sampled_tokens_do_not_depend_on_the_company(served: NativeDecoder) -> None:
    prompts = make_prompts(served, *(10 + slot for slot in range(SLOTS)))
    options = RequestOptions(temperature=0.7, top_p=0.9)

    def speak(slots: list[int]) -> list[list[int]]:
        loop = DecodeStep(served, NullDrafter(), MatchVerifier())
        entries = [Admission(row, prompts[slot], options, slot, 0) for row, slot in enumerate(slots)]
        spoken: list[list[int]] = loop.admit(entries).tolist()
        for _ in range(25):
            for row, drawn in enumerate(loop.run(range(len(slots))).tokens):
                spoken[row] += drawn[0].tolist()
        return spoken

    together = speak(list(range(SLOTS)))
    assert together[3::4] == [speak([slot])[0] for slot in range(3, SLOTS, 4)]


class Greedy:
    """Utterances spoken by the best tokens of double precision, for which `served` is asked as well."""

    def __init__(self, served: NativeDecoder, seed: int, *, slips_at: int | None = None) -> None:
        """
        Args:
            slips_at: the frame at which the first utterance's token reaches `served` as another.
        """
        config, generator = CONFIGS["as served"], torch.Generator().manual_seed(seed)
        exact = make_torch(config, make_state(config), torch.float64)
        prompts = [torch.randn((20 + row, served.hidden_size), generator=generator) for row in range(8)]
        slots, rows = list(range(8)), Rows.of(range(8))
        ours, theirs = prefill(served, slots, prompts), prefill(exact, slots, prompts)
        self.error = 0.0
        """The largest of a logit."""
        self.mismatches: list[tuple[int, int, float]] = []
        """Utterance and frame, and by how much double precision prefers its own token to the one served."""
        for frame in range(60):
            best = theirs.argmax(-1)
            self._compare(frame, ours.double(), theirs)
            heard = best.clone()
            if frame == slips_at:
                heard[0] = theirs[0].topk(2).indices[1]
            ours, theirs = step(served, heard, rows), step(exact, best, rows)

    def _compare(self, frame: int, ours: Tensor, theirs: Tensor) -> None:
        self.error = max(self.error, float((ours - theirs).abs().max()))
        gaps = theirs.amax(-1) - theirs.gather(1, ours.argmax(-1, keepdim=True))[:, 0]
        self.mismatches += [(row, frame, float(gaps[row])) for row in torch.nonzero(gaps).flatten().tolist()]

    def unexcused(self, error: float) -> list[tuple[int, int, float]]:
        """Mismatches that an error of this size does not explain."""
        return [one for one in self.mismatches if one[2] >= error]


MEASURED, JUDGED = 11, 12
"""Seeds of the utterances on which an error is measured, and of those that it is held against: others, for
among the same ones every mismatch lies within twice their own error, whatever its cause."""


def test_a_greedy_mismatch_is_excused_by_the_error_measured_on_other_utterances(
    served: NativeDecoder, precision: torch.dtype
) -> None:
    measured, judged = Greedy(served, MEASURED).error, Greedy(served, JUDGED)
    print("excused (utterance, frame, gap):", judged.mismatches, "measured error:", measured)
    assert judged.unexcused(measured) == []
    if precision is not torch.float32:
        assert judged.mismatches, "nothing was excused, so nothing was shown"


def test_a_mismatch_that_has_a_cause_is_not_excused(served: NativeDecoder) -> None:
    """One token of one utterance is heard as another: its later frames are wrong by more than rounding."""
    measured = Greedy(served, MEASURED).error
    slipped = Greedy(served, JUDGED, slips_at=10).unexcused(measured)
    assert slipped and {row for row, _, _ in slipped} == {0}


def test_rows_beyond_a_slot_are_refused(served: NativeDecoder) -> None:
    with pytest.raises(IndexError, match="do not fit"):
        prefill(served, [0], make_prompts(served, POSITIONS + NODES + 1))
    with pytest.raises(IndexError, match="do not fit"):
        prefill(served, [SLOTS], make_prompts(served, 3))


def test_a_token_that_is_none_is_refused(served: NativeDecoder) -> None:
    prefill(served, [0], make_prompts(served, 3))
    for token in (-1, served.vocab_size):
        with pytest.raises(IndexError, match="not of the vocabulary"):
            served.score(TokenTree(torch.tensor([[[token]]])), Rows.of([0]))


def test_the_exponential_keeps_its_bound() -> None:
    x = torch.linspace(-87, 88, 1 << 20)
    found = torch.empty_like(x)
    address = ctypes.c_void_p
    native_library.load_library(native_decoder.SOURCE).talkahead_exponential(
        address(x.data_ptr()), ctypes.c_int64(len(x)), address(found.data_ptr())
    )
    exact = x.double().exp()
    assert float(((found - exact) / exact).abs().max()) < 2e-7


# Choice and compilation


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    native_library.load_library.cache_clear()
    yield tmp_path
    native_library.load_library.cache_clear()


def choose(choice: DecoderChoice, config: DecoderConfig, dtype: torch.dtype = torch.float32) -> Decoder:
    return load_decoder(config, make_state(config), num_slots=1, max_positions=8, dtype=dtype, choice=choice)


SMALL = CONFIGS["one head"]


def test_each_choice_gives_its_decoder() -> None:
    assert isinstance(choose(DecoderChoice.AUTO, SMALL), NativeDecoder)
    assert isinstance(choose(DecoderChoice.NATIVE, SMALL), NativeDecoder)
    assert isinstance(choose(DecoderChoice.TORCH, SMALL), SlotDecoder)
    assert isinstance(choose(DecoderChoice.AUTO, SMALL, torch.float64), SlotDecoder)
    assert isinstance(choose(DecoderChoice.TORCH, SMALL, torch.bfloat16), SlotDecoder)
    with pytest.raises(
        TalkaheadError, match=r"float32, bfloat16, int8, int4 on a CPU, not in torch\.float64"
    ):
        choose(DecoderChoice.NATIVE, SMALL, torch.float64)


def scored_alone(decoder: Decoder) -> Tensor:
    return prefill(decoder, [0], make_prompts(decoder, 5))


def test_each_precision_is_its_own(precision: torch.dtype) -> None:
    chosen = choose(DecoderChoice.AUTO, SMALL, precision)
    expected = make_native(SMALL, make_state(SMALL), precision)
    assert torch.equal(scored_alone(chosen), scored_alone(expected))
    for other in PRECISIONS.values():
        if other is not precision and can_multiply(other):
            different = scored_alone(choose(DecoderChoice.AUTO, SMALL, other))
            assert not torch.equal(scored_alone(expected), different)


@pytest.mark.needs("amx")
@pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS.keys())
def test_tiles_and_panels_agree_nearly(precision: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for in_tiles in (True, False):
        monkeypatch.setattr(native_decoder, "has_tiles", lambda in_tiles=in_tiles: in_tiles)
        decoder = make_native(CONFIGS["as served"], make_state(CONFIGS["as served"]), precision)
        found[in_tiles] = prefill(decoder, [0, 1], make_prompts(decoder, 5, 50))
    assert error(found[True], found[False].double()) < NEAR[precision]
    is_whole = precision in (torch.int8, torch.int4)
    assert torch.equal(found[True], found[False]) == is_whole, "floats are added in another order"


@pytest.mark.needs("amx")
@pytest.mark.parametrize("precision", [torch.int8, torch.int4], ids=["int8", "int4"])
@pytest.mark.parametrize("name", ["grouped heads", "one head"])
def test_products_of_whole_numbers_are_the_same_in_tiles(
    name: str, precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, for rows that fill no tile, one, or more; heads are too narrow to be attended in tiles."""
    config = CONFIGS[name]
    found: dict[bool, list[Tensor]] = {True: [], False: []}
    for in_tiles, told in found.items():
        monkeypatch.setattr(native_decoder, "has_tiles", lambda in_tiles=in_tiles: in_tiles)
        decoder = make_native(config, make_state(config), precision)
        for rows in (1, 8, 9, 15, 16, 17, 33, 97):
            told.append(prefill(decoder, [0], make_prompts(decoder, rows)))
        prefill(decoder, list(range(12)), make_prompts(decoder, *range(1, 13)))
        told.append(step(decoder, torch.arange(12), Rows.of(range(12))))
    for tiles, panels in zip(found[True], found[False], strict=True):
        assert torch.equal(tiles, panels)


def test_int8_is_bfloat16_in_torch() -> None:
    expected = make_torch(SMALL, make_state(SMALL), torch.bfloat16)
    chosen = choose(DecoderChoice.TORCH, SMALL, torch.int8)
    assert torch.equal(scored_alone(chosen), scored_alone(expected))


@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.int8])
def test_a_cpu_without_a_precision_keeps_float32_and_says_so(
    wanted: torch.dtype, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in ("native_decoder", "decoder_choice"):
        monkeypatch.setattr(
            f"talkahead.backbone.{module}.can_multiply", lambda precision: precision is torch.float32
        )
    with caplog.at_level(logging.WARNING):
        chosen = choose(DecoderChoice.AUTO, SMALL, wanted)
    (line,) = caplog.messages
    assert "decodes in float32" in line
    assert torch.equal(scored_alone(chosen), scored_alone(choose(DecoderChoice.NATIVE, SMALL)))
    with pytest.raises(native_library.NativeUnavailable, match="does not multiply"):
        make_native(SMALL, make_state(SMALL), wanted)


@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16, torch.int8])
def test_without_a_compiler_torch_serves_in_float32_and_says_so(
    wanted: torch.dtype, empty_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    with caplog.at_level(logging.WARNING):
        chosen = choose(DecoderChoice.AUTO, SMALL, wanted)
    assert isinstance(chosen, SlotDecoder)
    assert torch.equal(scored_alone(chosen), scored_alone(choose(DecoderChoice.TORCH, SMALL)))
    (line,) = caplog.messages
    assert "decodes with torch in float32" in line and "gcc, cc is on the PATH" in line
    with pytest.raises(TalkaheadError, match="cannot run here: none of gcc"):
        choose(DecoderChoice.NATIVE, SMALL)


def test_a_failed_compile_is_told(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = empty_cache / "broken.c"
    broken.write_text("int broken(")
    with pytest.raises(native_library.NativeUnavailable, match=r"gcc failed: .*broken\.c"):
        native_library.load_library(broken)


def test_a_header_that_changes_wherever_it_lies_is_compiled_in(empty_cache: Path) -> None:
    source, header = empty_cache / "one" / "answer.c", empty_cache / "two" / "answer.h"
    for path, text in (
        (source, '#include "../two/answer.h"\nint answer(void) { return ANSWER; }\n'),
        (header, ""),
    ):
        path.parent.mkdir()
        path.write_text(text)
    for answer in (42, 43):
        header.write_text(f"#define ANSWER {answer}\n")
        native_library.load_library.cache_clear()
        assert native_library.load_library(source).answer() == answer


def test_shapes_that_do_not_fill_vectors_are_left_to_torch() -> None:
    uneven = replace(SMALL, head_dim=8)
    assert isinstance(choose(DecoderChoice.AUTO, uneven), SlotDecoder)
    with pytest.raises(TalkaheadError, match="head_dim is 8, not a multiple of 16"):
        choose(DecoderChoice.NATIVE, uneven)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_prompt_read_in_parts_is_bitwise_the_prompt_read_at_once(
    config: DecoderConfig, precision: torch.dtype
) -> None:
    """What follows it, all that was seen of it, and the step after."""
    decoder = make_native(config, make_state(config), precision)
    (prompt,) = make_prompts(decoder, 150)
    whole = decoder.prefill([1], prompt[None], [150], all_hidden=True)
    parts, before = [], 0
    for count in (97, 1, 30, 22):
        parts.append(decoder.read_on(2, prompt[before : before + count], before))
        before += count
    assert torch.equal(parts[-1].logits, whole.logits)
    assert torch.equal(torch.cat([part.hidden for part in parts], dim=1), whole.hidden)
    ahead = [step(decoder, torch.tensor([7]), Rows.of([slot])) for slot in (1, 2)]
    assert torch.equal(*ahead)
