"""What manifests say of where files come from: their hashes, the commit that made them, their licence."""

from __future__ import annotations

import subprocess

LICENCE = (
    "Apache-2.0. Learned from speech made by hibari 0.2.1 with the voice heart (copyright 2026 Maureese "
    "Williams, Apache-2.0; PyPI package hibari-tts; distilled from the voice af_heart of Kokoro-82M by "
    "hexgrad, Apache-2.0) of sentences from WordNet 3.0 (Princeton University, WordNet licence; Debian "
    "package wordnet-base) and of patterns written for this project. The codec's last layer is hibari's own, "
    "of the rotation apart."
)


def source_commit() -> str:
    """The checked-out commit, or `unknown` outside a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    return done.stdout.strip() or "unknown"
