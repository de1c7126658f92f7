"""What lies beside a talker to draft with.

`drafts/<drafter>/` holds weights, their description and, for heads, trees; `groups/` holds token groups.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from talkahead.errors import ArtifactMismatch

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TREES = "trees.json"
ACCEPTANCE = "acceptance.json"
GROUPS = "groups.json"


def draft_folder(talker: Path, drafter: str) -> Path:
    return talker / "drafts" / drafter


def group_folder(talker: Path) -> Path:
    return talker / "groups"


def read_json(path: Path) -> dict[str, Any]:
    """Raises ArtifactMismatch for what cannot be read."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactMismatch(
            f"{path} cannot be read ({error}); make it with: python -m build_engines calibrate"
        ) from error
    return content
