"""A training goes on from what fits, says what does not, and does not begin from nothing unasked."""

from __future__ import annotations

import pytest
import torch
from talkahead.errors import TalkaheadError
from torch import nn

from training.checkpoint import go_on_from


def test_what_fits_is_taken_over_and_the_rest_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    module = nn.Linear(3, 2)
    before = module.weight.clone()
    go_on_from(module, {"bias": torch.ones(2), "weight": torch.ones(2, 5)})
    assert torch.equal(module.bias, torch.ones(2)) and torch.equal(module.weight, before)
    assert capsys.readouterr().out == "begins anew, for its shape is another: weight [2, 5]\n"


def test_a_start_of_which_nothing_fits_is_refused() -> None:
    with pytest.raises(TalkaheadError, match=r"none of its 1 weights .*, from weight \[4, 4\] on"):
        go_on_from(nn.Linear(3, 2), {"weight": torch.ones(4, 4)})
