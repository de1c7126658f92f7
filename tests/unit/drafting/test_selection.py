"""What a request gets, and what it is told when it asks for what this server does not do."""

from __future__ import annotations

import subprocess
import sys

import pytest
from talkahead.config import RequestOptions
from talkahead.drafting.draft_sizes import DraftSizes
from talkahead.drafting.drafters import drafter_names, verifiers_of
from talkahead.drafting.offer import Offer
from talkahead.drafting.selection import check_pair, select
from talkahead.errors import BadRequest
from talkahead.speculation.pairs import Pair
from talkahead.speculation.verifier_options import VerifierOptions
from talkahead.speculation.verifiers import VERIFIERS

ALL = Offer(
    {
        "heads": DraftSizes((8, 16, 32, 64), 32),
        "mtp": DraftSizes((2, 3), 3),
        "draft_lm": DraftSizes(tuple(range(2, 10)), 4),
    },
    (0.6, 0.4),
)
BARE = Offer()
PAIRS = [(drafter, verifier) for drafter in drafter_names() for verifier in verifiers_of(drafter)]


def pair_of(offer: Offer, **options: object) -> tuple[str, str]:
    pair = select(RequestOptions(**options), offer).pair  # type: ignore[arg-type]
    return pair.drafter, pair.verifier


def test_nothing_asked_for_is_the_server_s_choice() -> None:
    assert pair_of(ALL) == ("none", "match")
    assert pair_of(Offer(ALL.drafters, default=Pair("heads", "tolerance"))) == ("heads", "tolerance")


@pytest.mark.parametrize(("drafter", "verifier"), PAIRS)
def test_what_is_named_is_given(drafter: str, verifier: str) -> None:
    assert pair_of(ALL, drafter=drafter, verifier=verifier) == (drafter, verifier)


@pytest.mark.parametrize("drafter", drafter_names())
def test_a_drafter_alone_keeps_the_tokens(drafter: str) -> None:
    assert pair_of(ALL, drafter=drafter) == (drafter, "match")


@pytest.mark.parametrize(
    ("verifier", "drafter"),
    [
        ("ratio", "draft_lm"),
        ("groups", "draft_lm"),
        ("tolerance", "heads"),
        ("topk", "mtp"),
        ("match", "none"),
    ],
)
def test_a_verifier_alone_gets_the_drafter_that_it_goes_with(verifier: str, drafter: str) -> None:
    assert pair_of(ALL, verifier=verifier) == (drafter, verifier)


def test_the_server_s_own_partner_comes_first() -> None:
    offer = Offer(ALL.drafters, ALL.similarities, Pair("mtp", "topk"))
    assert pair_of(offer, verifier="ratio") == ("mtp", "ratio")
    assert pair_of(offer, drafter="mtp") == ("mtp", "topk")
    assert pair_of(offer, drafter="heads") == ("heads", "match")


@pytest.mark.parametrize("default", [Pair("none", "match"), Pair("mtp", "match"), Pair("draft_lm", "ratio")])
@pytest.mark.parametrize(
    ("options", "pair"),
    [
        ({"nodes": 8}, ("heads", "match")),
        ({"draft_length": 5}, ("draft_lm", "match")),
        ({"tolerance": 3, "nodes": 8}, ("heads", "tolerance")),
        ({"bias": 0.1, "drafter": "mtp"}, ("mtp", "biased")),
    ],
)
def test_options_alone_choose_who_takes_them_whatever_the_default(
    default: Pair, options: dict[str, object], pair: tuple[str, str]
) -> None:
    """The server's own comes first where it takes them: a machine may prefer another drafter."""
    chosen = pair_of(Offer(ALL.drafters, ALL.similarities, default), **options)
    own = {"draft_length": 5}.items() <= options.items() and default.drafter == "draft_lm"
    assert chosen == ((default.drafter, default.verifier) if own else pair)


@pytest.mark.parametrize(
    ("options", "nodes", "is_pinned"),
    [
        ({}, 1, True),
        ({"drafter": "heads"}, 32, False),
        ({"drafter": "heads", "nodes": 31}, 16, False),
        ({"drafter": "heads", "nodes": 64, "pin_draft": True}, 64, True),
        ({"drafter": "mtp"}, 3, False),
        ({"drafter": "draft_lm", "draft_length": 8, "pin_draft": False}, 9, False),
    ],
)
def test_a_draft_is_as_large_as_asked_for(options: dict[str, object], nodes: int, is_pinned: bool) -> None:
    chosen = select(RequestOptions(**options), ALL)  # type: ignore[arg-type]
    assert (chosen.nodes, chosen.is_pinned) == (nodes, is_pinned)


def test_options_reach_their_verifier() -> None:
    def options(**given: object) -> VerifierOptions:
        return select(RequestOptions(**given), ALL).verifier  # type: ignore[arg-type]

    assert options(verifier="tolerance", tolerance=5) == VerifierOptions(tolerance=5)
    assert options(verifier="topk", top_k_verify=7, eos_top_k=2) == VerifierOptions(
        top_k_verify=7, eos_top_k=2
    )
    assert options(verifier="groups") == options(verifier="groups", similarity=0.6)
    assert options(verifier="groups", similarity=0.4) == VerifierOptions(similarity=0.4)


@pytest.mark.parametrize(
    ("offer", "options", "message"),
    [
        (ALL, {"drafter": "eagle"}, r"^drafter: 'eagle' .* allowed: none, heads, mtp, draft_lm "),
        (ALL, {"verifier": "1"}, r"^verifier: '1' .* match, ratio, groups, tolerance, topk, biased "),
        (BARE, {"drafter": "heads"}, r"^drafter: 'heads' .* allowed: none \(this server has no weights"),
        (BARE, {"verifier": "topk"}, r"^verifier: 'topk' .* allowed: match \(this server has no drafter"),
        (
            BARE,
            {"tolerance": 3},
            r"^tolerance: 3 .* with verifier match: it belongs to tolerance; leave it out",
        ),
        (BARE, {"pin_draft": True}, r"^pin_draft: .* with drafter none: it belongs to heads, mtp, draft_lm"),
        (ALL, {"drafter": "heads", "verifier": "ratio"}, "with drafter heads: match, tolerance, topk"),
        (ALL, {"drafter": "none", "verifier": "topk"}, "with drafter none: match$"),
        (ALL, {"drafter": "heads", "draft_length": 2}, r"with drafter heads: it belongs to mtp, draft_lm"),
        (ALL, {"drafter": "mtp", "nodes": 8}, r"with drafter mtp: it belongs to heads; leave it out"),
        (
            ALL,
            {"drafter": "mtp", "verifier": "match", "bias": 0.1},
            r"with verifier match: it belongs to biased",
        ),
        (ALL, {"drafter": "heads", "bias": 0.1}, r"with verifier match: it belongs to biased"),
        (ALL, {"tolerance": 3, "bias": 0.1}, r"^tolerance: 3 .* it belongs to tolerance; leave it out"),
        (
            ALL,
            {"drafter": "heads", "nodes": 7},
            "^nodes: 7 .* a whole number from 8 to 64 with drafter heads",
        ),
        (ALL, {"drafter": "heads", "nodes": 65}, "a whole number from 8 to 64"),
        (ALL, {"drafter": "mtp", "draft_length": 3}, "a whole number from 1 to 2 with drafter mtp"),
        (ALL, {"verifier": "groups", "similarity": 0.5}, r"^similarity: 0\.5 .* allowed: 0\.6, 0\.4$"),
        (
            Offer(ALL.drafters),
            {"verifier": "groups"},
            r"^similarity: None .* allowed: nothing: this voice has no groups",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_can(
    offer: Offer, options: dict[str, object], message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        select(RequestOptions(**options), offer)  # type: ignore[arg-type]


def test_the_frontend_s_check_needs_no_torch() -> None:
    program = "import sys, talkahead.drafting.selection; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(("drafter", "verifier"), PAIRS)
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
