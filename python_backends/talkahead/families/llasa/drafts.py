"""Drafts that come with a Llasa: the modules of Llasa+ in its own file, and Medusa's heads in one of theirs.

Shapes: D width, V whole vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from talkahead.backbone.checkpoint import Checkpoint, Shape, tensor_shapes
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.errors import ArtifactMismatch
from talkahead.families.imported_checkpoint import ImportedDraft, Parts
from talkahead.families.library_weights import torch_state
from talkahead.families.token_checkpoint import compact_config, speech_rows
from talkahead.families.token_layout import SpeechTokens

_DECODER, _MTP, _MEDUSA = "llm.", "mtp_", "medusa_head."
_MEDUSA_FILE = "medusa_lm_head.pt"
_MODULE = re.compile(r"mtp_(\d+)_(block|proj|local_RMSNorm)\.(.+)")
_HEAD = re.compile(r"(\d+)\.(\d+)\.(linear\.)?(weight|bias)")
_MODULE_PARTS = {"block": "decoder.model.layers.0", "proj": "projector", "local_RMSNorm": "hidden_norm"}

Stored = Mapping[str, Callable[[], Tensor]]
"""What reads each tensor of a file, by its name there."""


def decoder_name(name: str) -> str | None:
    """What a tensor of a Llasa's files is called in its decoder; None for a draft's."""
    return None if name.startswith((_MTP, _MEDUSA)) else name.removeprefix(_DECODER)


def module_name(name: str) -> str:
    """What a tensor of Llasa+'s modules is called among ours; unknown ones keep their name."""
    found = _MODULE.fullmatch(name)
    if found is None:
        return name
    return f"cascade.{int(found[1]) - 1}.{_MODULE_PARTS[found[2]]}.{found[3]}"


def head_name(name: str, blocks: int) -> str:
    """What a tensor of Medusa's heads, of so many blocks each, is called among ours; unknown ones keep their
    name. Blocks are counted over all heads."""
    found = _HEAD.fullmatch(name.removeprefix(_MEDUSA))
    if found is None:
        return name
    head, block = int(found[1]), int(found[2])
    return f"inward.{head * blocks + block}.{found[4]}" if found[3] else f"linears.{head}.{found[4]}"


def imported_drafts(folder: Path, checkpoint: Checkpoint, speech: SpeechTokens) -> tuple[ImportedDraft, ...]:
    """Those that the folder holds; raises ArtifactMismatch for one that is not whole."""
    modules = {name: read for name, read in checkpoint.others.items() if name.startswith(_MTP)}
    heads: Stored = {name: read for name, read in checkpoint.others.items() if name.startswith(_MEDUSA)}
    heads = heads or _medusa_file(folder / _MEDUSA_FILE)
    drafts = []
    if modules:
        drafts.append(_mtp(folder, modules, checkpoint.config, speech))
    if heads:
        drafts.append(_heads(folder, heads, checkpoint.config, speech))
    return tuple(drafts)


def _medusa_file(path: Path) -> Stored:
    if not path.exists():
        return {}
    state = torch_state(path)
    return {name: partial(state.__getitem__, name) for name in state}


def _mtp(folder: Path, stored: Stored, config: DecoderConfig, speech: SpeechTokens) -> ImportedDraft:
    """Modules that see no tokens, and the prompt's rows like any; no norm is between a layer and the talker's
    head."""
    found = {module_name(name): read() for name, read in stored.items()}
    count = len({name for name in found if name.endswith("hidden_norm.weight")})
    layer = replace(compact_config(config, speech), num_hidden_layers=1, tie_word_embeddings=False)
    wanted = {
        f"cascade.{module}.{name}": shape for module in range(count) for name, shape in _module(layer).items()
    }
    _compare(folder, "Llasa+'s modules", found, wanted)
    description = {
        "num_modules": count,
        "sees_tokens": False,
        "has_norm": False,
        "sees_prompt": True,
        "layer": layer.to_hugging_face(),
    }
    return ImportedDraft("mtp", description, {name: (tensor,) for name, tensor in found.items()})


def _module(layer: DecoderConfig) -> dict[str, Shape]:
    width = layer.hidden_size
    own = {name: shape for name, shape in tensor_shapes(layer).items() if name.startswith("model.layers.")}
    return {
        "hidden_norm.weight": (width,),
        "projector.weight": (width, width),
        "projector.bias": (width,),
        **{f"decoder.{name}": shape for name, shape in own.items()},
    }


def _heads(folder: Path, stored: Stored, config: DecoderConfig, speech: SpeechTokens) -> ImportedDraft:
    """Blind heads, whose blocks have one layer each."""
    blocks = sum(bool(re.search(r"(?:^|\.)0\.\d+\.linear\.weight$", name)) for name in stored)
    found = {head_name(name, blocks): read() for name, read in stored.items()}
    count = len({name for name in found if name.startswith("linears.")})
    width, vocabulary = config.hidden_size, config.vocab_size
    wanted: dict[str, Shape] = {f"linears.{head}.weight": (vocabulary, width) for head in range(count)}
    for block in range(count * max(blocks, 1)):
        wanted |= {f"inward.{block}.weight": (width, width), f"inward.{block}.bias": (width,)}
    _compare(folder, "Medusa's heads", found, wanted)
    tensors: dict[str, Parts] = {
        name: speech_rows(tensor, speech) if name.startswith("linears.") else (tensor,)
        for name, tensor in found.items()
    }
    description = {
        "num_heads": count,
        "width": width,
        "block_size": None,
        "num_blocks": blocks,
        "vocab_size": speech.num_codes + 1,
        "sees_tokens": False,
    }
    return ImportedDraft("heads", description, tensors)


def _compare(folder: Path, what: str, found: Mapping[str, Tensor], wanted: Mapping[str, Shape]) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    for name in sorted(set(shapes) | set(wanted)):
        if shapes.get(name) != wanted.get(name):
            raise ArtifactMismatch(
                f"{folder}: {what} have {name} of {_shown(shapes.get(name))}; allowed: "
                f"{_shown(wanted.get(name))}, by config.json"
            )


def _shown(shape: Shape | None) -> str:
    return "none" if shape is None else str(list(shape))
