"""Every name builds what it says, and what makes no sense is refused with what does."""

from __future__ import annotations

import pytest
import torch
from talkahead.config import ParameterValue
from talkahead.errors import BadRequest
from talkahead.speculation.contracts import Preserves
from talkahead.speculation.groups_verifier import GroupsVerifier
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.verifier_options import SETTINGS, VerifierOptions
from talkahead.speculation.verifiers import VERIFIERS

EMBEDDINGS = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
GROUPS = {threshold: SimilarityGroups.of(EMBEDDINGS, threshold, alone=(19,)) for threshold in (0.8, 0.6)}
TARGET = TargetTokens(eos=19, groups=GROUPS)


def test_every_verifier_is_made_and_keeps_its_promise_s_name() -> None:
    promises = {name: spec.kind.preserves for name, spec in VERIFIERS.items()}
    assert promises == {
        "match": Preserves.TOKENS,
        "ratio": Preserves.DISTRIBUTION,
        "groups": Preserves.GROUPS,
        "tolerance": Preserves.NOTHING,
        "topk": Preserves.NOTHING,
        "biased": Preserves.NOTHING,
    }
    for spec in VERIFIERS.values():
        assert spec.kind.of(VerifierOptions(), TARGET).preserves is spec.kind.preserves


def test_every_option_belongs_to_a_verifier() -> None:
    assert sorted(name for spec in VERIFIERS.values() for name in spec.options) == sorted(SETTINGS)


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
    build = VERIFIERS["groups"].kind.of
    assert build(VerifierOptions(), TARGET) == GroupsVerifier(GROUPS[0.8])
    assert build(VerifierOptions(similarity=0.6), TARGET) == GroupsVerifier(GROUPS[0.6])
    with pytest.raises(BadRequest, match=r"^similarity: 0\.7 .* allowed: 0\.8, 0\.6$"):
        build(VerifierOptions(similarity=0.7), TARGET)
    with pytest.raises(BadRequest, match="this voice has no groups"):
        build(VerifierOptions(), TargetTokens(eos=19))
