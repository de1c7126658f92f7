"""Every name builds what it says, and what makes no sense is refused with what does."""

from __future__ import annotations

import pytest
import torch
from talkahead.config import ParameterValue
from talkahead.errors import BadRequest
from talkahead.speculation.contracts import Preserves
from talkahead.speculation.pairs import PAIRS, VERIFIER_OPTIONS, check_pair
from talkahead.speculation.registry import VERIFIERS, TargetTokens
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.verifier_options import SETTINGS, VerifierOptions

EMBEDDINGS = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
GROUPS = {threshold: SimilarityGroups.of(EMBEDDINGS, threshold, alone=(19,)) for threshold in (0.8, 0.6)}
TARGET = TargetTokens(eos=19, groups=GROUPS)


def test_every_verifier_is_built_and_promises_what_the_registry_says() -> None:
    promises = {name: method.preserves for name, method in VERIFIERS.items()}
    assert promises == {
        "match": Preserves.TOKENS,
        "ratio": Preserves.DISTRIBUTION,
        "groups": Preserves.GROUPS,
        "tolerance": Preserves.NOTHING,
        "topk": Preserves.NOTHING,
        "biased": Preserves.NOTHING,
    }
    for method in VERIFIERS.values():
        assert method.build(VerifierOptions(), TARGET).preserves is method.preserves


def test_every_option_belongs_to_a_verifier() -> None:
    assert sorted(name for method in VERIFIERS.values() for name in method.options) == sorted(SETTINGS)


def test_drafters_have_pairs() -> None:
    assert set(VERIFIERS) == set(VERIFIER_OPTIONS)
    assert all(set(pairs) <= set(VERIFIERS) for pairs in PAIRS.values())


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("tolerance", 0, "from 1 to 16"),
        ("tolerance", 17, "from 1 to 16"),
        ("tolerance", 1.5, "whole number"),
        ("top_k_verify", 0, "from 1 to 65,536"),
        ("eos_top_k", -1, "from 1 to 65,536"),
        ("bias", 1.1, "from 0 to 1"),
        ("bias", float("nan"), "from 0 to 1"),
        ("similarity", "much", "from -1 to 1"),
    ],
)
def test_a_value_out_of_range_is_refused_with_what_is_allowed(
    name: str, value: ParameterValue, allowed: str
) -> None:
    with pytest.raises(BadRequest, match=f"^{name}: .*{value}.* allowed: .*{allowed}"):
        VerifierOptions.from_parameters({name: value, "temperature": 0.7})


def test_options_are_read_as_triton_carries_them() -> None:
    options = VerifierOptions.from_parameters({"tolerance": "3", "bias": "0.5", "seed": 1})
    assert options == VerifierOptions(tolerance=3, bias=0.5)


def test_groups_are_chosen_by_their_threshold() -> None:
    build = VERIFIERS["groups"].build
    assert vars(build(VerifierOptions(), TARGET))["_groups"] is GROUPS[0.8]
    assert vars(build(VerifierOptions(similarity=0.6), TARGET))["_groups"] is GROUPS[0.6]
    with pytest.raises(BadRequest, match=r"^similarity: 0\.7 .* allowed: 0\.8, 0\.6$"):
        build(VerifierOptions(similarity=0.7), TARGET)
    with pytest.raises(BadRequest, match="this voice has no groups"):
        build(VerifierOptions(), TargetTokens(eos=19))


@pytest.mark.parametrize(("drafter", "verifier"), [(one, pair) for one in PAIRS for pair in PAIRS[one]])
def test_pairs_that_make_sense_pass(drafter: str, verifier: str) -> None:
    check_pair(drafter, verifier, {name: 1 for name in VERIFIERS[verifier].options} | {"seed": 3})


def test_pairs_that_make_no_sense_are_refused_with_those_that_do() -> None:
    with pytest.raises(BadRequest, match=r"verifier: 'ratio' .* with drafter heads: match, tolerance, topk"):
        check_pair("heads", "ratio")
    with pytest.raises(BadRequest, match=r"verifier: 'topk' .* with drafter none: match"):
        check_pair("none", "topk")
    with pytest.raises(BadRequest, match=r"drafter: 'guess' .* none, heads, mtp, draft_lm"):
        check_pair("guess", "match")


def test_an_option_of_another_verifier_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"bias: 0\.3 .* nothing with verifier ratio: it belongs to biased"):
        check_pair("draft_lm", "ratio", {"bias": 0.3})
