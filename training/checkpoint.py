"""What a training begins with, and what it tells of its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from talkahead.errors import TalkaheadError
from torch import Tensor, nn


@contextmanager
def told_plainly() -> Iterator[None]:
    """A training that cannot begin, or go on, ends with the sentence that says why."""
    try:
        yield
    except TalkaheadError as error:
        sys.exit(f"error: {error}")


def go_on_from(module: nn.Module, found: Mapping[str, Tensor]) -> None:
    """Takes over every weight whose name and shape the module has too, and names the others.

    Raises:
        TalkaheadError: none fits, so that it would begin from nothing.
    """
    own = module.state_dict()
    fitting = {name: value for name, value in found.items() if name in own and own[name].shape == value.shape}
    others = [f"{name} {list(value.shape)}" for name, value in found.items() if name not in fitting]
    if not fitting:
        raise TalkaheadError(
            f"--start: none of its {len(found)} weights has name and shape of one here, from {others[0]} on"
        )
    module.load_state_dict({**own, **fitting})
    if others:
        print(f"begins anew, for its shape is another: {', '.join(others)}", flush=True)


def report(path: Path, steps: int, metrics: dict[str, float]) -> None:
    """What a training reached, for the artifact's manifest."""
    path.write_text(json.dumps({"steps": steps, "metrics": metrics}, indent=2) + "\n", encoding="utf-8")
