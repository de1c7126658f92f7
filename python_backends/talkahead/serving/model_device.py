"""Where one model's process computes, and with how many threads."""

from __future__ import annotations

import torch

from talkahead.backbone.thread_choice import ThreadChoice
from talkahead.config import AUTO, ModelConfig, thread_override


def claim_device(config: ModelConfig, model: str) -> torch.device:
    """Sets the process's threads, picks the device: the parameter `device`, by default a GPU if there is one.

    A process that took all cores for each small product would only slow its neighbours down.
    """
    torch.set_num_threads(thread_override(model) or config.whole("threads", 1))
    return _device(config)


def claim_talkers_device(config: ModelConfig) -> tuple[torch.device, ThreadChoice]:
    """The same of the talker, whose threads may be `auto`: to be settled once it is loaded."""
    device, override = _device(config), thread_override("talker")
    choice = ThreadChoice.of(config) if override is None else ThreadChoice(override)
    choice.claim(device)
    return device, choice


def _device(config: ModelConfig) -> torch.device:
    wanted = config.parameters.get("device", AUTO)
    if wanted != AUTO:
        return torch.device(wanted)
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
