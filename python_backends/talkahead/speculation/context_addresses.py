"""Where a context's columns lie, for native code. Found once: a context's columns stay where they are.

Shapes: B rows, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from talkahead.native_declarations import NativeStruct
from talkahead.speculation.contracts import Context
from talkahead.speculation.native_sampler import settings_columns


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
    settings: NativeStruct
    is_state: bool
    held: tuple[Tensor, ...]

    @classmethod
    def of(cls, context: Context) -> Self:
        return context.keep(cls.__name__, lambda: cls._find(context))

    @classmethod
    def _find(cls, context: Context) -> Self:
        own = (context.roots_alone.ids, context.positions, context.keys, context.hidden)
        held = tuple(one.contiguous() for one in (*own[:3], own[3].to(torch.float32)))
        is_state = all(one is other for one, other in zip(held, own, strict=True))
        roots, positions, keys, hidden = (one.data_ptr() for one in held)
        return cls(roots, positions, keys, hidden, settings_columns(context.settings.by_name), is_state, held)
