"""What the page of speculation measures: drafts and talkers that are trained for it, by which commands.

`python -m training --recipe NAME` makes one of them, with all that it needs, for the talker that is shipped.
All drafts learn by `talkahead drafts train`, equally long, from equally much of what the talker says itself.
"""

from __future__ import annotations

from talkahead.draft_training.draft_shape import DraftShape

MINUTES, STEPS = 100, 800
"""Of the talker's own speech, and of learning from it, of each draft, whatever machine it learns on."""
SHIPPED = ("heads", "mtp", "draft_lm")
PAPERS = {"heads-blind": "Li et al. 2025", "mtp-blind": "Tian et al. 2025", "mtp-1-blind": "Tian et al. 2025"}
"""Whose design a draft is, down to the loss; others are ours."""
DRAFTS = (*SHIPPED, "heads-6", "mtp-1", *PAPERS, "draft_lm-1", "draft_lm-2")
TUNED, SMALLER = "tuned", "smaller"
TALKERS = {TUNED: 1_400, SMALLER: 400}
"""Talkers that are not shipped, and the steps that they learn after the shipped one: together with heads, and
with its first nine layers."""
SMALLER_LAYERS = 9


def command(name: str) -> str:
    """What trains a draft or a talker of the page, from the root of the repository."""
    return f"python -m training --recipe {name}"


def told(name: str) -> str:
    """How a draft or a talker learns."""
    if name == TUNED:
        return f"the shipped talker learns on together with heads for {TALKERS[TUNED]:,} steps"
    if name == SMALLER:
        return f"the shipped talker's first {SMALLER_LAYERS} layers learn on for {TALKERS[SMALLER]:,} steps"
    shape = DraftShape.of(name)
    loss = f"{shape.soft:.0%} of the loss the talker's own distribution" if shape.soft else "cross-entropy"
    return f"`talkahead drafts train {shape.options}`: {loss}{'' if shape.fades else '; all count the same'}"
