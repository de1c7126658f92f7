"""Where one model's process computes, and with how many threads."""

from __future__ import annotations

import torch

from talkahead.config import ModelConfig, thread_override


def claim_device(config: ModelConfig, model: str) -> torch.device:
    """Sets the process's threads, picks the device: the parameter `device`, by default a GPU if there is one.

    A process that took all cores for each small product would only slow its neighbours down.
    """
    torch.set_num_threads(thread_override(model) or config.whole("threads", 1))
    wanted = config.parameters.get("device", "auto")
    if wanted != "auto":
        return torch.device(wanted)
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
