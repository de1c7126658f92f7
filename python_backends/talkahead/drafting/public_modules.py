"""Modules of multi-token prediction under the names of their authors (Tian et al. 2025), from 1.

`mtp_1_local_RMSNorm.weight`, then `mtp_1_proj.weight` and `.bias`, then a Llama layer `mtp_1_block`, which
the target's head reads as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.drafting.public_names import renamed

_PUBLIC = {
    "hidden_norm.": "mtp_{}_local_RMSNorm.",
    "projector.": "mtp_{}_proj.",
    "decoder.model.layers.0.": "mtp_{}_block.",
}
_NUMBER = re.compile(r"mtp_(\d+)_")


def read_public_modules(state: Mapping[str, Tensor], target: DecoderConfig) -> MtpModules:
    """Modules in float32, ready for inference.

    Args:
        state: tensors by their public names, without the target's.

    Raises:
        ArtifactMismatch: a tensor is missing, unknown, or of another shape than the target asks for.
    """
    count = max((int(found[1]) for name in state if (found := _NUMBER.match(name))), default=1)
    modules = MtpModules(target, count, sees_tokens=False, has_norm=False, sees_prompt=True)
    names = {_public(name): name for name in modules.state_dict()}
    modules.load_state_dict(renamed(state, names, modules))
    return modules.eval().requires_grad_(False)


def _public(name: str) -> str:
    """Of `cascade.0.hidden_norm.weight`, for one."""
    _, place, rest = name.split(".", 2)
    ours, public = next((ours, public) for ours, public in _PUBLIC.items() if rest.startswith(ours))
    return public.format(int(place) + 1) + rest.removeprefix(ours)
