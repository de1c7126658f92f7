"""What a draft takes over from one that learned for another talker."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from talkahead.draft_training.beginnings import take_over
from talkahead.drafting.draft_artifact import Draft
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.errors import TalkaheadError


def heads(vocabulary: int, width: int = 8, rank: int | None = 4) -> DraftHeads:
    return DraftHeads(2, width, vocabulary, block_size=16, output_rank=rank)


@pytest.fixture
def start(tmp_path: Path) -> Path:
    Draft("heads", heads(30), "0" * 64).save(tmp_path)
    return tmp_path


def test_a_draft_of_the_same_shape_is_taken_whole(start: Path) -> None:
    network = heads(30)
    taken = take_over(network, "heads", start)
    assert taken == sum(one.numel() for one in network.state_dict().values())


def test_what_stands_together_is_taken_together(start: Path) -> None:
    """Of an output onto other tokens not even the matrix that has the same shape."""
    earlier, network = heads(30), heads(50)
    take_over(earlier, "heads", start)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    take_over(network, "heads", start)
    state = network.state_dict()
    for name in ("inward.1.weight", "inward.1.bias", "outward.0.weight", "projector.weight"):
        torch.testing.assert_close(state[name], earlier.state_dict()[name])
    for name in ("embed_tokens.weight", "linears.0.inner.weight", "linears.0.outer.weight"):
        torch.testing.assert_close(state[name], before[name])


def test_a_draft_of_which_nothing_fits_is_refused(start: Path) -> None:
    with pytest.raises(TalkaheadError, match="is of another shape: none of its weights fits"):
        take_over(heads(50, width=12, rank=5), "heads", start)
