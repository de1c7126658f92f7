"""`generation_config.json`: how a checkpoint's tokens are drawn unless a request says otherwise, which of its
attention heads tells what it speaks, and how far that one may move from frame to frame.

The file is Hugging Face's, and its fields mean what they mean there; so do those that it leaves out.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from operator import index
from pathlib import Path
from typing import Any

from talkahead.config import SETTINGS, Flag, SamplingDefaults, Setting
from talkahead.errors import ArtifactMismatch

NAME = "generation_config.json"

_ALIGNMENT_HEADS = "alignment_heads"
_ALIGNMENT_WINDOW = "alignment_window"

_LEFT_OUT = {"do_sample": False, "temperature": 1.0, "top_p": 1.0, "top_k": 50}
"""What Hugging Face takes for them."""


_OF_OTHERS = frozenset(
    (
        *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
        *("max_length", "max_new_tokens", "use_cache", "transformers_version", "_from_model_config"),
        *(_ALIGNMENT_HEADS, _ALIGNMENT_WINDOW),
    )
)
"""Fields that say nothing about how tokens are drawn: ends and lengths are the family's."""

_READ: dict[str, Setting] = {
    "do_sample": Flag(),
    **{field.name: SETTINGS[field.name] for field in fields(SamplingDefaults)},
}


@dataclass(frozen=True)
class AlignmentWindow:
    """What an alignment head sees of the prompt, so that nothing is skipped or said again (as in Deep Voice
    3, Ping et al. 2018), and where speech ends.

    Attributes:
        back, ahead: rows before and after the one that the frame before speaks.
        longest: frames that one row is spoken, then it is not seen; 0: for ever.
        closing: rows that end every prompt and stand for no sound: whoever has spoken them for
            `CLOSING_FRAMES` frames is done.
    """

    back: int
    ahead: int
    longest: int = 0
    closing: int = 0


CLOSING_FRAMES = 2


@dataclass(frozen=True)
class AlignmentHead:
    """A layer of the talker, and one of its query heads; without a window it sees the whole prompt."""

    layer: int
    head: int
    window: AlignmentWindow | None = None


def read_sampling(folder: Path) -> SamplingDefaults:
    """Of the talker in a version folder. Raises ArtifactMismatch for a field that would not be honoured."""
    path, described = folder / NAME, _described(folder).items()
    given = {name: value for name, value in described if value is not None and name not in _OF_OTHERS}
    if unknown := sorted(set(given) - set(_READ)):
        raise ArtifactMismatch(f"{path}: {', '.join(unknown)} cannot be honoured; known: {', '.join(_READ)}")
    values = {name: _checked(path, name, value) for name, value in (_LEFT_OUT | given).items()}
    is_sampled = values.pop("do_sample")
    return SamplingDefaults(**values if is_sampled else values | {"temperature": 0.0})


def read_alignment_head(folder: Path) -> AlignmentHead | None:
    """The attention head that tells which row of the prompt is spoken; None where none has learned to.

    Hugging Face's Whisper has the field, as a list of layers and heads; the head's window is our own. Raises
    ArtifactMismatch for anything but a list of one, or of none, and for a window that is none.
    """
    described = _described(folder)
    heads, window = described.get(_ALIGNMENT_HEADS), described.get(_ALIGNMENT_WINDOW)
    if not heads:
        return None
    try:
        ((layer, head),) = heads
        read = AlignmentHead(index(layer), index(head))
    except (TypeError, ValueError) as error:
        raise ArtifactMismatch(
            f"{folder / NAME}: {_ALIGNMENT_HEADS} is {heads!r}; allowed: [[layer, head]] or []"
        ) from error
    return read if window is None else replace(read, window=_window(folder / NAME, window))


def _window(path: Path, told: Any) -> AlignmentWindow:  # noqa: ANN401
    try:
        window = AlignmentWindow(**{name: index(value) for name, value in told.items()})
    except (AttributeError, TypeError):
        window = AlignmentWindow(-1, 0)
    if min(window.back, window.ahead - 1, window.longest, window.closing) < 0:
        raise ArtifactMismatch(
            f'{path}: {_ALIGNMENT_WINDOW} is {told!r}; allowed: {{"back": 0 or more, "ahead": 1 or more, '
            '"longest": 0 or more, "closing": 0 or more}, whole numbers'
        )
    return window


def _described(folder: Path) -> dict[str, Any]:
    path = folder / NAME
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")).items())
    except (OSError, ValueError, AttributeError) as error:
        raise ArtifactMismatch(f"{path} cannot be read: {error}") from error


def _checked(path: Path, name: str, value: Any) -> Any:  # noqa: ANN401
    setting = _READ[name]
    try:
        return setting.read(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArtifactMismatch(f"{path}: {name} is {value!r}; allowed: {setting.allowed}") from error


def write_sampling(
    defaults: SamplingDefaults, folder: Path, alignment_head: AlignmentHead | None = None
) -> None:
    described: dict[str, Any] = {"do_sample": defaults.temperature > 0, **asdict(defaults)}
    if alignment_head is not None:
        described[_ALIGNMENT_HEADS] = [[alignment_head.layer, alignment_head.head]]
        if alignment_head.window is not None:
            described[_ALIGNMENT_WINDOW] = asdict(alignment_head.window)
    (folder / NAME).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
