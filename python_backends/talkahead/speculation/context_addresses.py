"""Where a context's columns lie, for native code. Found once: a context's columns stay where they are.

Shapes: B rows, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from talkahead.speculation.contracts import Context
from talkahead.speculation.native_sampler import SettingsColumns


@dataclass(frozen=True)
class ContextAddresses:
    """Of int64 [B] each, but for what says otherwise.

    Args:
        hidden: float32 [B, D].
        is_state: nothing had to be copied or converted: what is written there, the context has.
        held: what lies at the addresses.
    """

    roots: int
    positions: int
    keys: int
    hidden: int
    settings: SettingsColumns
    is_state: bool
    held: tuple[Tensor, ...]

    @classmethod
    def of(cls, context: Context) -> Self:
        return context.keep(cls.__name__, lambda: cls._find(context))

    @classmethod
    def _find(cls, context: Context) -> Self:
        own = (
            context.roots_alone.ids,
            context.positions,
            context.keys,
            context.hidden,
            *context.settings.columns,
        )
        held = tuple(one.contiguous() for one in (*own[:3], own[3].to(torch.float32), *own[4:]))
        roots, positions, keys, hidden, *columns = (one.data_ptr() for one in held)
        is_state = all(one is other for one, other in zip(held, own, strict=True))
        return cls(roots, positions, keys, hidden, SettingsColumns(*columns), is_state, held)
