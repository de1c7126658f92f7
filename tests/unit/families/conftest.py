"""One thread per process: these models are so small that threads would only wait for each other."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
