"""Where what a talker said lies, for all drafts that learn from it: those of one command, and of others that
run beside it. It is spoken once, and goes with the last of them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from talkahead.draft_training.speech_store import SpeechStore
from talkahead.draft_training.texts import Split
from talkahead.draft_training.work_folder import recipes_beside


@dataclass(frozen=True)
class SpeechFolder:
    """One folder among the drafts' work folders, named after all that its speech depends on.

    Args:
        recipe: what that is; a part of the recipes of all drafts that learn from it.
    """

    path: Path
    recipe: Mapping[str, object]

    @classmethod
    def beside(cls, draft: Path, recipe: Mapping[str, object]) -> Self:
        """A draft's work folder."""
        digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
        return cls(draft.parent / f"speech-{digest[:12]}", recipe)

    def store(self, split: Split) -> SpeechStore:
        """As it is now."""
        return SpeechStore(self.path / split)

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[None]:
        """While this holds, nobody else speaks into the folder: who comes later waits, and finds it full."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another command lets the talker speak the same; this one waits for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def leave(self) -> None:
        """A draft has learned from it: nothing stays, unless another one has begun that has not ended."""
        if not any(recipe.items() >= self.recipe.items() for recipe in recipes_beside(self.path)):
            shutil.rmtree(self.path, ignore_errors=True)
