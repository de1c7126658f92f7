"""A method: what drafts, what verifies, with which options. Its fields say all that its row depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from talkahead.draft_training.draft_shape import DraftShape
from talkahead.speculation.contracts import Preserves
from talkahead.speculation.verifier_options import SETTINGS
from talkahead.speculation.verifiers import VERIFIERS

from instruments.recipes import SHIPPED, SMALLER, TUNED

NO_DRAFT = "none"
ACCEPT_ALL = "everything"
"""The verifier that only this benchmark has."""
OFFLINE_VERIFIERS = (*VERIFIERS, ACCEPT_ALL)


class Talker(StrEnum):
    """Whose speech it is; only the shipped one is served."""

    SHIPPED = "shipped"
    TUNED = TUNED
    """The base that learned on together with its heads (Li et al. 2025, "with tuning")."""
    SMALLER = SMALLER


Options = Mapping[str, int | float]


@dataclass(frozen=True)
class Method:
    """One way to decode.

    Args:
        draft: the folder of a trained draft, which is its name in `instruments.recipes`; or NO_DRAFT.
        verifier: a name of the registry, or ACCEPT_ALL.
        options: request parameters, of drafter and verifier.
        swapped_within: after decoding, tokens change places within groups of this similarity.
    """

    draft: str = NO_DRAFT
    verifier: str = "match"
    options: Options = field(default_factory=dict)
    talker: Talker = Talker.SHIPPED
    swapped_within: float | None = None

    @property
    def is_plain(self) -> bool:
        return self.draft == NO_DRAFT

    @property
    def drafter(self) -> str:
        """The name that a request uses."""
        return NO_DRAFT if self.is_plain else DraftShape.of(self.draft).drafter

    @property
    def needs(self) -> str:
        """What must have been trained for it, as `instruments.recipes` names it: a talker, or a draft of the
        shipped one; nothing for plain decoding.
        """
        if self.talker is not Talker.SHIPPED:
            return str(self.talker)
        return "" if self.is_plain else self.draft

    @property
    def is_shipped(self) -> bool:
        """Whether a server can do it with what lies in the repository."""
        return self.needs in ("", *SHIPPED)

    @property
    def preserves(self) -> Preserves:
        if self.talker is not Talker.SHIPPED or self.swapped_within is not None:
            return Preserves.NOTHING
        if self.verifier == ACCEPT_ALL:
            return Preserves.NOTHING
        return VERIFIERS[self.verifier].kind.preserves

    @property
    def keeps_tokens(self) -> bool:
        """Whether it must say what plain decoding says, token by token."""
        is_one_draw = self.verifier == "tolerance" and self.options.get("tolerance") == 1
        of_shipped = self.talker is Talker.SHIPPED and self.swapped_within is None
        return of_shipped and (self.preserves is Preserves.TOKENS or is_one_draw)

    @property
    def returns_probs(self) -> bool:
        return self.verifier in VERIFIERS and VERIFIERS[self.verifier].reads_probs

    @property
    def trials(self) -> int:
        """Draws after each node that drafted tokens are compared with."""
        return int(self.options["tolerance"]) if self.verifier == "tolerance" else 1

    @property
    def verifier_options(self) -> dict[str, int | float]:
        return {name: value for name, value in self.options.items() if name in SETTINGS}

    @property
    def nodes(self) -> int | None:
        return self._whole("nodes")

    @property
    def draft_length(self) -> int | None:
        return self._whole("draft_length")

    def _whole(self, name: str) -> int | None:
        return int(self.options[name]) if name in self.options else None

    def having(self, **options: int | float) -> Method:
        return replace(self, options={**self.options, **options})

    @property
    def title(self) -> str:
        """Short, and no other method's."""
        words = [] if self.talker is Talker.SHIPPED else [str(self.talker)]
        words.append("plain" if self.is_plain else f"{self.draft} + {self.verifier}")
        words += [f"{_SHORT.get(name, name)} {value:g}" for name, value in self.options.items()]
        if self.swapped_within is not None:
            words.append(f"swapped {self.swapped_within:g}")
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        return {
            "draft": self.draft,
            "verifier": self.verifier,
            "options": dict(self.options),
            "talker": str(self.talker),
            "swapped_within": self.swapped_within,
        }


_SHORT = {"tolerance": "tau", "top_k_verify": "k", "eos_top_k": "eos k", "draft_length": "length"}
PLAIN = Method()
