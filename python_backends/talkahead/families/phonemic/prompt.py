"""Symbols to the talker's prompt, and after them the codes of a recording in the talker's own embedding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.backbone import cuda_graphs
from talkahead.backbone.checkpoint import EMBEDDINGS, Checkpoint
from talkahead.config import AUTO, folder_beside
from talkahead.cpu_path import has_bfloat16_products
from talkahead.errors import ArtifactMismatch, BadRequest
from talkahead.families.contracts import TORCH, Frames, Units, require_engine
from talkahead.families.native_engine import NATIVE, native_network
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.phonemic.native_text_encoder import NativeTextEncoder
from talkahead.families.phonemic.onnx_text_encoder import OnnxTextEncoder
from talkahead.families.phonemic.recorded_text_encoder import RecordedTextEncoder
from talkahead.families.phonemic.text_encoder import PromptNetwork, TextEncoder
from talkahead.families.phonemic.voice import Voice, voices_of
from talkahead.text.symbols import NUM_SYMBOLS


class PhonemePromptEncoder:
    """A `PromptEncoder`.

    Args:
        embeddings: the talker's, [V, D].
        voices: each of one of the encoder's own.
    """

    def __init__(self, encoder: PromptNetwork, embeddings: Tensor, voices: Sequence[Voice]) -> None:
        self._encoder = encoder
        self._speakers = [encoder.config.voices.index(voice.speaker) for voice in voices]
        self._speakers.append(len(encoder.config.voices))
        self._embeddings = embeddings
        self.width = encoder.config.width

    @classmethod
    def load(cls, folder: Path, device: torch.device, engine: str = AUTO) -> Self:
        """Raises ArtifactMismatch where frontend, encoder and talker were not made for each other, or the
        engine does not fit."""
        encoder = load_network(folder, device, engine)
        if encoder.config.num_symbols != NUM_SYMBOLS:
            raise ArtifactMismatch(
                f"{folder}: the encoder knows {encoder.config.num_symbols} symbols, the frontend "
                f"{NUM_SYMBOLS}; rebuild it with: make train"
            )
        talker = Checkpoint(folder_beside(folder, "talker"))
        width = talker.config.hidden_size
        if width != encoder.config.width:
            raise ArtifactMismatch(
                f"the talker's tokens have width {width}, the encoder's prompts "
                f"{encoder.config.width}; they were trained apart: rebuild both with make train"
            )
        voices = voices_of(folder_beside(folder, "vocoder"), encoder.config.voices)
        return cls(encoder, talker[EMBEDDINGS].to(device, torch.float32, copy=True), voices)

    def prompt(self, units: Units, voice: int, reference: Frames | None) -> Tensor:
        if not 0 <= voice < len(self._speakers):
            raise BadRequest("SEGMENT: voice", voice, f"a whole number from 0 to {len(self._speakers) - 1}")
        symbols = torch.from_numpy(units).to(self._embeddings.device)
        words = self._encoder.prompt(symbols, self._speakers[voice]).float()
        if reference is None:
            return words
        codes = torch.from_numpy(reference[:, 0]).to(self._embeddings.device)
        return torch.cat([words, self._embeddings[codes]])

    def spoken(self, voice: int, reference: Frames | None) -> Frames | None:
        return reference


def load_network(folder: Path, device: torch.device, engine: str) -> PromptNetwork:
    """As it is served; raises ArtifactMismatch for an engine that there is not, or that does not fit."""
    require_engine(engine, (NATIVE, TORCH, ONNXRUNTIME), device.type, "this prompt encoder")
    if engine == ONNXRUNTIME:
        return OnnxTextEncoder.load(folder)
    encoder = TextEncoder.load(folder)
    if native := native_network(engine, device, lambda: NativeTextEncoder(encoder)):
        return native
    if device.type == "cpu" and has_bfloat16_products():
        encoder.to_bfloat16_products()
    recorder = cuda_graphs.recorder_on(device)
    return encoder.to(device) if recorder is None else RecordedTextEncoder(encoder.to(device), recorder)
