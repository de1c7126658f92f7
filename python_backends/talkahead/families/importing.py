"""Reading a downloaded folder as a checkpoint of a family, and of no other."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from talkahead.errors import ArtifactMismatch
from talkahead.families.imported_checkpoint import Download, ImportedCheckpoint
from talkahead.families.registry import family_names
from talkahead.families.text_tokens import TOKENIZER, TextTokens
from talkahead.families.token_layout import TokenLayout


class _Reader(Protocol):
    """A family's module `checkpoint`."""

    LAYOUT: TokenLayout

    def read(self, download: Download, tokens: TextTokens) -> ImportedCheckpoint: ...


def importable_families() -> tuple[str, ...]:
    return tuple(_readers())


def _readers() -> dict[str, _Reader]:
    modules = {name: f"talkahead.families.{name}.checkpoint" for name in family_names()}
    return {name: import_module(module) for name, module in modules.items() if find_spec(module)}


def families_of(tokens: TextTokens) -> list[str]:
    """Whose speech tokens a tokenizer has; more than one only by mistake."""
    return [name for name, reader in _readers().items() if reader.LAYOUT.is_in(tokens)]


def layout_of(family: str) -> TokenLayout:
    """Of one of the `importable_families`."""
    return _readers()[family].LAYOUT


def read_checkpoint(family: str, download: Download) -> ImportedCheckpoint:
    """What the folders hold, each tensor's name and shape checked, and none read.

    Raises:
        TalkaheadError: they cannot be served as this family; the sentence names file and field.
    """
    readers = _readers()
    if family not in readers:
        raise ArtifactMismatch(f"family: {family!r} has no public checkpoints; allowed: {', '.join(readers)}")
    tokens = TextTokens(download.folder)
    found = families_of(tokens)
    if family not in found:
        layout = readers[family].LAYOUT
        raise ArtifactMismatch(
            f"{download.folder / TOKENIZER} is of {' and '.join(found) or 'no family that is known'}, not of "
            f"{family}, whose speech tokens are {layout.code.format(layout.first)} and on, and {layout.end}"
        )
    return readers[family].read(download, tokens)
