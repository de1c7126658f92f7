"""How lenient a verifier is: the request's parameters, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from talkahead import config
from talkahead.config import ParameterValue, Setting
from talkahead.errors import BadRequest

SETTINGS: dict[str, Setting] = {
    name: config.SETTINGS[name] for name in ("tolerance", "top_k_verify", "eos_top_k", "bias", "similarity")
}


@dataclass(frozen=True)
class VerifierOptions:
    """Options of all verifiers; each reads its own. Raises BadRequest for a value out of range.

    Args:
        tolerance: draws of the target at each node (`tolerance`).
        top_k_verify: what may be accepted is among so many best tokens (`topk`).
        eos_top_k: the same for the end of speech, which a careless verifier brings too early (`topk`).
        bias: what is added to the chance of acceptance (`biased`).
        similarity: cosine above which tokens share a group (`groups`); None: the first that the voice has.
    """

    tolerance: int = 3
    top_k_verify: int = 10
    eos_top_k: int = 1
    bias: float = 0.3
    similarity: float | None = None

    def __post_init__(self) -> None:
        for name, setting in SETTINGS.items():
            value = getattr(self, name)
            if value is None:
                continue
            try:
                object.__setattr__(self, name, setting.read(value))
            except (ValueError, TypeError, OverflowError) as error:
                raise BadRequest(name, value, setting.allowed) from error

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, ParameterValue]) -> Self:
        """From the request's parameters that are options of verifiers; the others are left to others."""
        return cls(**{name: value for name, value in parameters.items() if name in SETTINGS})  # type: ignore[arg-type]


assert {field.name for field in fields(VerifierOptions)} == set(SETTINGS)
