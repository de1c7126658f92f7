"""Makes a model repository of a public checkpoint, as `talkahead serve --repository` serves it.

FOLDER is a checkpoint as its publishers have it (config.json, weights, tokenizer.json), --codec that of its
codec. Every tensor's name and shape is checked before anything is written; tensors are read one by one; what
is not whole does not get its name. The talker keeps its speech tokens alone, the encoder its whole embedding
table. Weights that come alone, as Llasa+'s do, want config.json and tokenizer of the checkpoint that they
were tuned from: --base. So do most files of llama.cpp, FILE.gguf in FOLDER's place. Drafts that the
checkpoint brings (Llasa+'s modules, Medusa's heads) come with it; `talkahead drafts train` makes your own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from talkahead.backbone import decoder_config
from talkahead.backbone.checkpoint import WEIGHTS
from talkahead.backbone.decoder_choice import Precision, count_memory
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.config import with_parameter
from talkahead.errors import ArtifactMismatch
from talkahead.families.imported_checkpoint import Download, ImportedCheckpoint
from talkahead.families.importing import importable_families, read_checkpoint
from talkahead.families.repository_writer import new_repository, write_models
from talkahead.speech_format import SpeechFormat
from torch import Tensor

from build_engines.gguf_weights import write_safetensors
from instruments.environment import REPOSITORY
from instruments.provenance import source_commit

_GIB = 1 << 30
_WEIGHTS = ("model.safetensors", "model-", "pytorch_model")
"""How names of a checkpoint's weights begin."""
_PRECISION = Precision.BFLOAT16
"""Of imported talkers, unless another is asked for: nobody has heard them in int8, in which ours speaks as
well as in this."""
_SLOTS = 16
"""A slot of a large talker is a hundred megabytes, and no CPU speaks with one for more streams in time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("family", choices=importable_families(), help="kind of checkpoint")
    add("folder", type=Path, help="the downloaded checkpoint, or a file of its weights for llama.cpp")
    add("--codec", type=Path, required=True, help="the downloaded codec, as its library saves it")
    add("--out", type=Path, required=True, metavar="REPOSITORY", help="a folder that is not there yet")
    add(
        "--base",
        type=Path,
        metavar="FOLDER",
        help="where config.json and the tokenizer lie, of weights that come alone: Llasa+'s want Llasa-1B's, "
        "and those for llama.cpp (.gguf) their original's",
    )
    add(
        "--positions",
        type=int,
        help="of the longest segment with prompt and reference; each slot holds so many",
    )
    add(
        "--precision",
        type=Precision,
        choices=list(Precision),
        default=_PRECISION,
        help="of the talker's products; its matrices are kept in bfloat16 whatever they were published in, "
        "and as they are for float32 (%(default)s)",
    )
    add("--phonemes", help="who makes them, where the family has a choice")
    add(
        "--silence",
        type=_codes,
        metavar="CODES",
        help="of a silent frame, with commas between; needed where the codec's weights hold no encoder",
    )


def run(options: argparse.Namespace) -> None:
    """Raises TalkaheadError for what cannot be served."""
    with completed(options.folder, options.base) as folder:
        given = (folder, options.codec, options.positions, options.phonemes, options.silence)
        _import(options.out, read_checkpoint(options.family, Download(*given)), options.precision)


@contextmanager
def completed(folder: Path, base: Path | None) -> Iterator[Path]:
    """A folder of the same name with links to all files of a download, and to those of its base, the weights
    aside, that it has none of; weights for llama.cpp lie there as safetensors. The download itself where
    nothing is to be added."""
    own = {path.name: path for path in _files_of(folder)}
    packed = _packed_weights(folder, own)
    if base is None and packed is None:
        yield folder
        return
    with TemporaryDirectory() as scratch:
        whole = Path(scratch) / folder.resolve().name
        whole.mkdir()
        given = {path.name: path for path in _files_of(base) if not path.name.startswith(_WEIGHTS)}
        for name, path in {**given, **own}.items():
            (whole / name).symlink_to(path.resolve())
        if packed is not None:
            print(f"reading {packed}", file=sys.stderr, flush=True)
            config = DecoderConfig.from_file(whole / decoder_config.NAME)
            write_safetensors(packed, config, whole / WEIGHTS)
        yield whole


def _files_of(place: Path | None) -> list[Path]:
    """Of a folder, or the file itself; of what is not there none, which whoever reads it will say."""
    if place is None or not place.exists():
        return []
    return list(place.iterdir()) if place.is_dir() else [place]


def _packed_weights(folder: Path, own: Mapping[str, Path]) -> Path | None:
    """The file for llama.cpp, where a download has no other weights."""
    if any(name.startswith(_WEIGHTS) for name in own):
        return None
    found = sorted(path for name, path in own.items() if name.endswith(".gguf"))
    if len(found) > 1:
        raise ArtifactMismatch(
            f"{folder} has several files of weights: {', '.join(path.name for path in found)}; allowed: the "
            "path of one of them in the folder's place"
        )
    return found[0] if found else None


def _import(out: Path, imported: ImportedCheckpoint, precision: Precision) -> None:
    memory, narrows = served_memory(imported, precision), precision is not Precision.FLOAT32
    for line in (*facts(imported, precision), f"memory    {'; '.join(memory.lines())}"):
        print(line)
    if (needed := memory.fixed + memory.slot) > (there := machine_memory()):
        print(
            f"warning: a talker with one slot takes {needed / _GIB:,.1f} GiB, and this machine has "
            f"{there / _GIB:,.1f} GiB; serve it where there is more, or import fewer --positions",
            file=sys.stderr,
        )
    print(f"writing {out}", file=sys.stderr, flush=True)
    with new_repository(out) as repository:
        speech = write_models(imported, repository, source_commit(), narrows=narrows)
        copy_triton_parts(repository, precision)
    for line in (*speech_facts(speech), *next_commands(out, imported)):
        print(line)


def _codes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


_codes.__name__ = "codes"  # argparse names it in its messages


def facts(imported: ImportedCheckpoint, precision: Precision) -> list[str]:
    """Whose it is, and how large."""
    table = imported.table.numel() * _kept(imported.table, precision).itemsize
    config = imported.talker
    talker = sum(part.numel() for parts in imported.tensors.values() for part in parts)
    drafts = ", ".join(draft.drafter for draft in imported.drafts) or "none"
    return [
        f"family    {imported.family}, in the layout of {config.model_type}",
        f"licence   talker: {imported.licence}; codec: {imported.codec_licence}",
        f"talker    {talker / 1e6:,.0f} million weights, {config.num_hidden_layers} layers, "
        f"{config.vocab_size:,} tokens of speech",
        f"table     {imported.table.shape[0]:,} rows of {imported.table.shape[1]:,} "
        f"({table / _GIB:.2f} GiB, read from its file as rows are needed)",
        f"drafts    {drafts}",
    ]


def _kept(published: Tensor, precision: Precision) -> torch.dtype:
    """The type of a matrix in the repository."""
    return published.dtype if precision is Precision.FLOAT32 else torch.bfloat16


def served_memory(imported: ImportedCheckpoint, precision: Precision) -> DecoderMemory:
    """What the talker will take of this machine, as its config.pbtxt wants it served."""
    return count_memory(
        imported.talker,
        _kept(imported.table, precision),
        num_slots=_SLOTS,
        max_positions=imported.max_positions,
        dtype=precision.dtype,
    )


def machine_memory() -> int:
    """In bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def speech_facts(speech: SpeechFormat) -> list[str]:
    books = " + ".join(f"{size:,}" for size in speech.codebooks)
    segment, reference = speech.segment_positions, f"and {speech.reference_positions:,} for a reference"
    if not speech.has_encoder:
        reference = "and no references, for the codec's weights hold no encoder"
    return [
        f"speech    {speech.sample_rate_hz:,} Hz, {speech.frames_per_s:g} frames a second of {books} codes",
        f"segments  {segment:,} positions, {reference}",
    ]


def next_commands(repository: Path, imported: ImportedCheckpoint) -> list[str]:
    train = f"talkahead drafts train --repository {repository}"
    return [f"serve     talkahead serve --repository {repository}", f"drafts    {train}"]


def copy_triton_parts(repository: Path, precision: Precision = _PRECISION) -> None:
    """Configs and adapters, which are the same for every family but for the talker's precision and slots."""
    for model in sorted(path.parent for path in REPOSITORY.glob("*/config.pbtxt")):
        version = repository / model.name / "1"
        version.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model / "config.pbtxt", repository / model.name / "config.pbtxt")
        # The encoders of all these families look rows up in a table, which no engine does.
        if (model / "configs").is_dir() and model.name != "encoder":
            shutil.copytree(model / "configs", repository / model.name / "configs")
        for adapter in (model / "1").glob("model.py"):
            shutil.copyfile(adapter, version / adapter.name)
    config = repository / "talker" / "config.pbtxt"
    text = config.read_text(encoding="utf-8")
    for name, value in {"precision": str(precision), "slots": str(_SLOTS)}.items():
        text = with_parameter(text, name, value)
    config.write_text(text, encoding="utf-8")
