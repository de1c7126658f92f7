"""Tensors of a published draft under the names of our own network."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from talkahead.errors import ArtifactMismatch


def renamed(state: Mapping[str, Tensor], names: Mapping[str, str], shapes: nn.Module) -> dict[str, Tensor]:
    """All of `state`, by our names.

    Args:
        names: ours by the public ones.
        shapes: a network whose tensors have the shapes that these must have.

    Raises:
        ArtifactMismatch: a tensor is missing or unknown, or of another shape.
    """
    if strange := sorted(names.keys() ^ state.keys()):
        raise ArtifactMismatch(f"a published draft: missing or unknown: {', '.join(strange)}")
    for name, own in names.items():
        wanted, found = list(shapes.get_parameter(own).shape), list(state[name].shape)
        if wanted != found:
            raise ArtifactMismatch(f"a published draft: {name} is {found}, and must be {wanted}")
    return {own: state[name] for name, own in names.items()}
