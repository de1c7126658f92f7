"""Writes what a public checkpoint became as models of a repository, each with its manifest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch

from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.drafters import DRAFTERS
from talkahead.errors import ArtifactMismatch
from talkahead.families.imported_checkpoint import ImportedCheckpoint, ImportedDraft
from talkahead.families.registry import load_family
from talkahead.families.safetensors_file import write_tensors
from talkahead.families.table_encoder import TABLE
from talkahead.families.table_encoder import WEIGHTS as ENCODER_WEIGHTS
from talkahead.families.text_tokens import TOKENIZER
from talkahead.generation_config import write_sampling
from talkahead.manifest import NAME, Manifest, sha256
from talkahead.speech_format import SpeechFormat

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_VERSION = "1"


@contextmanager
def new_repository(out: Path) -> Iterator[Path]:
    """A folder beside `out` that becomes it when all has been written, and is gone when it has not.

    Raises:
        ArtifactMismatch: there is something already.
    """
    if out.exists():
        raise ArtifactMismatch(f"--out: {out} is there already; allowed: a folder that is not")
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield folder
        folder.chmod(0o755)
        folder.rename(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_repository(imported: ImportedCheckpoint, out: Path, source_commit: str = "unknown") -> SpeechFormat:
    """The models' artifacts alone, under a name that nobody serves until all are there."""
    with new_repository(out) as folder:
        return write_models(imported, folder, source_commit)


def write_models(
    imported: ImportedCheckpoint, repository: Path, source_commit: str, *, narrows: bool = False
) -> SpeechFormat:
    """Into a repository's version folders, the small ones first.

    Args:
        source_commit: whose code this is, for the manifests.
        narrows: the talker's matrices and the encoder's table are kept in bfloat16.

    Raises:
        TalkaheadError: the codec is not the talker's, or the longest segment has no room.
    """
    folders = {name: repository / name / _VERSION for name in ("vocoder", "frontend", "encoder", "talker")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    writer = _Writer(imported, source_commit, narrows)
    speech = writer.vocoder(folders["vocoder"])
    writer.frontend(folders["frontend"], speech)
    writer.encoder(folders["encoder"])
    writer.talker(folders["talker"])
    return speech


class _Writer:
    def __init__(self, imported: ImportedCheckpoint, source_commit: str, narrows: bool) -> None:
        self._imported = imported
        self._family = load_family(imported.family)
        self._source_commit = source_commit
        self._narrows = narrows

    def vocoder(self, folder: Path) -> SpeechFormat:
        imported = self._imported
        codec = import_module(f"talkahead.families.{imported.family}.codec")
        codec.convert_weights(imported.download.codec, folder)
        loaded = codec.load_codec(folder, torch.device("cpu"))
        if not loaded.can_encode:
            self._check_deaf()
        speech: SpeechFormat = loaded.speech_format(
            imported.max_positions, imported.segment_positions, imported.download.silence
        )
        if speech.codebooks != imported.encoder.codebooks:
            raise ArtifactMismatch(
                f"{imported.download.codec / _CONFIG}: its codebooks are {list(speech.codebooks)}; "
                f"allowed: {list(imported.encoder.codebooks)}, as the talker's tokenizer has them"
            )
        speech.save(folder)
        self._seal(folder, imported.codec_licence)
        return speech

    def _check_deaf(self) -> None:
        """Raises ArtifactMismatch where what the codec cannot hear is needed."""
        download, voices = self._imported.download, self._imported.encoder.voices
        without = f"{download.codec}: its weights hold no encoder"
        if download.silence is None:
            raise ArtifactMismatch(
                f"{without} to find the codes of silence with; allowed: --silence CODES, those of a silent "
                "frame, or all its weights"
            )
        if not voices:
            raise ArtifactMismatch(
                f"{without}, so that nothing can be spoken like a recording, and {download.folder} holds no "
                "voice; allowed: voices/NAME.json there, or all its weights"
            )

    def frontend(self, folder: Path, speech: SpeechFormat) -> None:
        shutil.copyfile(self._imported.download.folder / TOKENIZER, folder / TOKENIZER)
        self._imported.frontend.save(folder)
        self._family.frontend(folder, speech)
        self._seal(folder)

    def encoder(self, folder: Path) -> None:
        self._imported.encoder.save(folder)
        write_tensors(folder / ENCODER_WEIGHTS, {TABLE: (self._imported.table,)}, narrows=self._narrows)
        self._seal(folder)

    def talker(self, folder: Path) -> None:
        imported = self._imported
        _write_json(folder / _CONFIG, imported.talker.to_hugging_face())
        write_sampling(imported.sampling, folder)
        write_tensors(folder / _WEIGHTS, imported.tensors, narrows=self._narrows)
        target = self._seal(folder)[_WEIGHTS]
        for draft in imported.drafts:
            self._draft(draft, folder / "drafts" / draft.drafter, target)

    def _draft(self, draft: ImportedDraft, folder: Path, target: str) -> None:
        folder.mkdir(parents=True)
        _write_json(folder / _CONFIG, {"kind": draft.drafter, "target": target, **draft.config})
        write_tensors(folder / _WEIGHTS, draft.tensors)
        if DRAFTERS[draft.drafter].is_tree:
            CalibratedTrees.uncounted(sha256(folder / _WEIGHTS), draft.config["num_heads"]).save(folder)
        self._seal(folder, target=target)

    def _seal(self, folder: Path, licence: str = "", target: str = "") -> Mapping[str, str]:
        """Writes the manifest of a folder's artifacts; returns their hashes.

        Args:
            licence: where it is not the talker's.
        """
        imported = self._imported
        files = {
            path.name: sha256(path)
            for path in sorted(folder.iterdir())
            if path.suffix in (".json", ".safetensors") and path.name != NAME
        }
        names = imported.download.folder.resolve().name, imported.download.codec.resolve().name
        stage = f"python -m build_engines import-checkpoint {imported.family}"
        data = f"Imported from the folders {names[0]} and {names[1]}, as they were downloaded."
        command = f"{stage} FOLDER --codec FOLDER --out REPOSITORY"
        Manifest(command, self._source_commit, data, 0, {}, files, licence or imported.licence, target).write(
            folder
        )
        return files


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
