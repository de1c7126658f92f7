"""Columns with one entry per row, which are read and written together.

Shapes: R rows.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

from torch import Tensor


class RowColumns:
    """What a dataclass whose fields are tensors [R] can do."""

    @property
    def columns(self) -> tuple[Tensor, ...]:
        described: Any = self
        return tuple(getattr(self, field.name) for field in fields(described))

    def __getitem__(self, rows: slice | Tensor) -> Self:
        return type(self)(*(column[rows] for column in self.columns))

    def __setitem__(self, rows: slice | Tensor, values: Self) -> None:
        for mine, theirs in zip(self.columns, values.columns, strict=True):
            mine[rows] = theirs
