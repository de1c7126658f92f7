"""A model repository as another one is, but for parameters of its models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from talkahead.config import with_parameter

_CONFIG = "config.pbtxt"
_BATCH = "max_batch_size"
"""What Triton hands a model at a time, at most: a field of its config, which is changed like a parameter."""


def changed_repository(repository: Path, folder: Path, parameters: Mapping[str, str]) -> Path:
    """Writes into the new `folder`: links, beside the config.pbtxt of the models that are to be changed.

    Args:
        parameters: values by MODEL.NAME, such as `talker.slots`, or `vocoder.max_batch_size`.

    Raises:
        ValueError: for a model that the repository does not have.
    """
    models = {path.parent.name: path.parent.resolve() for path in repository.glob(f"*/{_CONFIG}")}
    configs: dict[str, str] = {}
    for place, value in parameters.items():
        model, _, name = place.partition(".")
        if model not in models or not name:
            raise ValueError(f"{place!r} is no parameter; allowed: MODEL.NAME of {', '.join(sorted(models))}")
        config = configs.get(model) or (models[model] / _CONFIG).read_text(encoding="utf-8")
        configs[model] = _changed(config, name, value)
    folder.mkdir()
    for model, source in models.items():
        if model not in configs:
            (folder / model).symlink_to(source)
            continue
        (folder / model).mkdir()
        for part in source.iterdir():
            if part.name != _CONFIG:
                (folder / model / part.name).symlink_to(part)
        (folder / model / _CONFIG).write_text(configs[model], encoding="utf-8")
    return folder


def _changed(config: str, name: str, value: str) -> str:
    if name == _BATCH:
        return re.sub(rf"^{_BATCH}: .*$", f"{_BATCH}: {value}", config, flags=re.MULTILINE)
    return with_parameter(config, name, value)
