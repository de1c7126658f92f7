"""`generation_config.json`: how a checkpoint's tokens are drawn unless a request says otherwise.

The file is Hugging Face's, and its fields mean what they mean there; so do those that it leaves out.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from talkahead.config import SETTINGS, Flag, SamplingDefaults, Setting
from talkahead.errors import ArtifactMismatch

NAME = "generation_config.json"

_LEFT_OUT = {"do_sample": False, "temperature": 1.0, "top_p": 1.0, "top_k": 50}
"""What Hugging Face takes for them."""

_OF_OTHERS = frozenset(
    (
        *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
        *("max_length", "max_new_tokens", "use_cache", "transformers_version", "_from_model_config"),
    )
)
"""Fields that say nothing about how tokens are drawn: ends and lengths are the family's."""

_READ: dict[str, Setting] = {
    "do_sample": Flag(),
    **{field.name: SETTINGS[field.name] for field in fields(SamplingDefaults)},
}


def read_sampling(folder: Path) -> SamplingDefaults:
    """Of the talker in a version folder. Raises ArtifactMismatch for a field that would not be honoured."""
    path = folder / NAME
    try:
        described = json.loads(path.read_text(encoding="utf-8")).items()
    except (OSError, ValueError, AttributeError) as error:
        raise ArtifactMismatch(f"{path} cannot be read: {error}") from error
    given = {name: value for name, value in described if value is not None and name not in _OF_OTHERS}
    if unknown := sorted(set(given) - set(_READ)):
        raise ArtifactMismatch(f"{path}: {', '.join(unknown)} cannot be honoured; known: {', '.join(_READ)}")
    values = {name: _checked(path, name, value) for name, value in (_LEFT_OUT | given).items()}
    is_sampled = values.pop("do_sample")
    return SamplingDefaults(**values if is_sampled else values | {"temperature": 0.0})


def _checked(path: Path, name: str, value: Any) -> Any:  # noqa: ANN401
    setting = _READ[name]
    try:
        return setting.read(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArtifactMismatch(f"{path}: {name} is {value!r}; allowed: {setting.allowed}") from error


def write_sampling(defaults: SamplingDefaults, folder: Path) -> None:
    described = {"do_sample": defaults.temperature > 0, **asdict(defaults)}
    (folder / NAME).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
