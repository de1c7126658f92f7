"""Threads that share the work of native calls (`native/team.c`)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import load_library

_SOURCE = Path(__file__).parent / "native" / "team.c"
_MODEL = Path(__file__).parent / "native" / "model.h"
_Helpers = native_struct(_MODEL, "helpers")


@lru_cache
def helpers_of(threads: int, *, yields: bool = False) -> NativeStruct:
    """`struct helpers` for calls of so many threads, the caller's among them; of one, nobody.

    The threads are there for the life of the process, and sleep between calls. Raises NativeUnavailable
    where they cannot be compiled; more than the library's most are as many as that.

    Args:
        yields: whether those beside the caller's run on cores alone that no other thread wants.
    """
    if threads < 2:
        return _Helpers(team=None, share=None)
    library = load_library(_SOURCE)
    members = min(threads, library.talkahead_most_members())
    return _Helpers(team=library.talkahead_team(members, yields), share=library.address("talkahead_share"))
