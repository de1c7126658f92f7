"""What a training frees is used again without new pages."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
import numpy as np
from talkahead.draft_training.kept_memory import keep_freed_memory

if "kept" in sys.argv:
    keep_freed_memory()
np.ones(16_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(16_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_a_large_block_brings_no_new_pages() -> None:
    found = {
        manner: int(
            subprocess.run([sys.executable, "-c", _FAULTS, manner], check=True, capture_output=True).stdout
        )
        for manner in ("kept", "given back")
    }
    assert found["kept"] < 20 < found["given back"]
