"""What manifests say of where files come from: their hashes, the commit that made them, their licence."""

from __future__ import annotations

import subprocess

LICENCE = (
    "Apache-2.0. Learned from speech made by flite 2.2 with the voices cmu_us_slt, cmu_us_rms, cmu_us_awb "
    "and cmu_us_kal16 (Carnegie Mellon University, BSD-like licence; Debian package libflite1) of sentences "
    "from WordNet 3.0 (Princeton University, WordNet licence; Debian package wordnet-base) and of patterns "
    "written for this project."
)


def source_commit() -> str:
    """The checked-out commit, or `unknown` outside a repository."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
