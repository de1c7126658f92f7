"""What a drafter says its tokens were drawn from is what the network says, and what they were drawn from."""

from __future__ import annotations

import pytest
import torch
from talkahead.backbone.llama import Llama
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.speculation.contracts import Accepted, Context, Drafter, Scored
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.sampling import SamplingSettings, probabilities_in_torch
from talkahead.speculation.token_tree import TokenTree
from tiny_talker import VOCABULARY, make_cut, make_decoder, make_drafter, make_llama, make_modules
from torch import Tensor

ROWS, TOP_K, TEMPERATURE = 4_000, 16, 0.35
CHI_SQUARE_15_AT_1E6 = 56.5
"""A chi-square of 15 degrees of freedom exceeds it once in a million: the rate of a false alarm."""
Z_AT_1E6 = 4.9
"""A standard normal number lies further from 0 once in a million."""


class WatchedDrafter(NullDrafter):
    """Keeps what another one proposed, and for what."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self.admit = drafter.admit

    def propose(self, context: Context) -> TokenTree:
        self.roots, self.hidden = context.roots.clone(), context.hidden.clone()
        self.tree = self._drafter.propose(context)
        return self.tree

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        self._drafter.observe(tree, scored, accepted, context)


def first_drafts(llama: Llama, kind: str, prompt: Tensor) -> WatchedDrafter:
    """One step of many rows that differ in their seeds alone."""
    drafter = WatchedDrafter(make_drafter(kind, llama, slots=ROWS))
    step = DecodeStep(make_decoder(llama, nodes=4, slots=ROWS), drafter, MatchVerifier())
    options = RequestOptions(temperature=TEMPERATURE, top_k=TOP_K, top_p=1.0)
    step.admit([Admission(row, prompt, options, seed=row, segment=0) for row in range(ROWS)])
    step.run(range(ROWS))
    return drafter


def expected(llama: Llama, kind: str, prompt: Tensor, drafter: WatchedDrafter) -> Tensor:
    """The drafts' distributions [R, N - 1, V], by the networks' plain forwards over the drafted tokens."""
    tokens = drafter.tree.ids
    if kind == "draft_lm":
        cut = make_cut(llama)
        rows = torch.cat([prompt.expand(ROWS, -1, -1), cut.model.embed_tokens(tokens[:, :-1])], dim=1)
        logits = cut.lm_head(cut(rows).hidden[:, len(prompt) :])
    else:
        modules = make_modules(llama, sees_tokens=kind == "mtp")
        states, logits_of = drafter.hidden[:, None], []
        for behind, module in enumerate(modules):
            states = module(states, llama.model.embed_tokens(tokens[:, behind, None]))
            logits_of.append(llama.lm_head(states))
        logits = torch.cat(logits_of, dim=1)
    temperature = torch.full((ROWS,), TEMPERATURE, dtype=torch.float64)
    top_k = torch.full((ROWS,), TOP_K)
    settings = SamplingSettings.of(temperature, top_k, torch.ones(ROWS, dtype=torch.float64))
    return probabilities_in_torch(logits, settings)


@pytest.mark.parametrize("kind", ["draft_lm", "mtp", "mtp without tokens"])
def test_tokens_are_drawn_from_what_the_drafter_says(kind: str) -> None:
    llama = make_llama()
    prompt = torch.randn((3, llama.config.hidden_size), generator=torch.Generator().manual_seed(0)).double()
    drafter = first_drafts(llama, kind, prompt)
    told = drafter.tree.draft_probs
    assert told is not None
    told = told[:, 1:]
    torch.testing.assert_close(told, expected(llama, kind, prompt, drafter), atol=1e-9, rtol=1e-9)
    drawn = drafter.tree.tokens[:, 1:, 0]

    # Rows with the commonest root draw their first token from one distribution.
    root = drafter.roots[:, 0].mode().values
    alike = drafter.roots[:, 0] == root
    counts = torch.bincount(drawn[alike, 0], minlength=VOCABULARY).double()
    assert chi_square(counts, told[alike][0, 0]) < CHI_SQUARE_15_AT_1E6
    flatter = told[alike][0, 0].sqrt()
    assert chi_square(counts, flatter / flatter.sum()) > CHI_SQUARE_15_AT_1E6  # which the test must catch

    # Deeper, each row draws from one of its own: the sum over rows of every token, in standard deviations.
    for depth in range(drawn.shape[1]):
        probs = told[:, depth]
        found = torch.bincount(drawn[:, depth], minlength=VOCABULARY) - probs.sum(0)
        spread = (probs * (1 - probs)).sum(0).sqrt()
        is_likely = spread > 3
        assert float((found[is_likely] / spread[is_likely]).abs().max()) < Z_AT_1E6


def chi_square(counts: Tensor, probs: Tensor) -> float:
    """Of at most `TOP_K` outcomes; rare ones count as one, which lowers the degrees of freedom."""
    wanted = probs * counts.sum()
    assert not bool(counts[wanted == 0].any())
    is_rare = wanted < 5
    counts = torch.cat([counts[~is_rare], counts[is_rare].sum()[None]])
    wanted = torch.cat([wanted[~is_rare], wanted[is_rare].sum()[None]])
    counts, wanted = counts[wanted > 0], wanted[wanted > 0]
    return float(((counts - wanted) ** 2 / wanted).sum())
