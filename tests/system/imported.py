"""Small public checkpoints of random weights, imported by the command as users do it, and served."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import public_folders
import torch
from hearing import Audio, Utterance, hear
from public_folders import Public
from safetensors.torch import load_file, save_file
from served import Served, served
from talkahead.families.contracts import Codec, CodecWindow, Family, Frames
from talkahead.families.registry import load_family
from talkahead.families.table_encoder import EncoderConfig
from talkahead.families.text_prompt import SPEECH, VOICE
from talkahead.manifest import Manifest
from talkahead.serving.reference_reader import ReferenceReader
from talkahead.speech_format import SpeechFormat
from talkahead_client import Client, Reference

from build_engines.__main__ import main
from instruments.public_tokenizers import llasa_tokenizer

SAME_FRAMES = 1e-4
"""Full scale, between decodings of the same frames in windows of other company; other frames are a thousand
times farther apart."""
_LIMIT_S = 120.0
_ENDS = {"orpheus": "<custom_token_2>"}
_END = "<|SPEECH_GENERATION_END|>"
_LEAST = {"neutts": 50}
"""Tokens that a family's own code draws before speech may end."""
_STORED = {"text": "My name is Jo.", "codes": [3, 1, 4, 1, 5, 9, 2, 6]}


@dataclass(frozen=True)
class Imported:
    """A repository, what it was made of, and the server that speaks it."""

    family: str
    public: Public
    repository: Path
    server: Served
    client: Client

    def speak(self, text: str, **options: Any) -> Utterance:  # noqa: ANN401
        return self.hear(self.client.speak(text, **options))

    def hear(self, chunks: Any) -> Utterance:  # noqa: ANN401
        return hear(chunks, self.speech)

    @cached_property
    def speech(self) -> SpeechFormat:
        return SpeechFormat.read(self._version("vocoder"))

    @cached_property
    def codec(self) -> Codec:
        return self._loaded.codec(self._version("vocoder"), torch.device("cpu"))

    # What the reference package says

    def greedy_frames(
        self, text: str, seconds: float, reference: Reference | None = None, repetition_penalty: float = 1.0
    ) -> Frames:
        """[F, C] of a text of one segment in the default voice, or like a recording: transformers in
        float64 draws the tokens after the prompt's public ids."""
        speech, encoder = self.speech, EncoderConfig.read(self._version("encoder"))
        end = self.public.tokenizer.convert_tokens_to_ids(_ENDS.get(self.family, _END))
        drawn = public_folders.greedy_codes(
            self.public,
            self._prompt(text, reference, encoder),
            encoder.first_speech,
            encoder.codebooks,
            end,
            int(seconds * speech.frames_per_s) * speech.steps_per_frame,
            repetition_penalty,
            least=_LEAST.get(self.family, 0),
        )
        spoken = drawn[: drawn.index(-1)] if -1 in drawn else drawn
        return self._loaded.token_map(speech).frames(np.array(spoken, np.int32))

    def cut_alike(self, frames: Frames, heard: Utterance, reference: Reference | None = None) -> Audio:
        """Frames decoded by the codec alone, in windows like those of what was heard: after the frames that
        the prompt went on from, where the codec wants them."""
        speech, parts, state, position = self.speech, [], None, 0
        before = self._spoken_before(reference)[: None if speech.joins_segments else 0]
        whole = np.concatenate([before, frames]).astype(np.int64)
        for chunk in heard.chunks:
            new = len(chunk.audio) // speech.hop
            start, beyond = len(before) + position, len(before) + len(frames)
            context = min(start, speech.context_frames)
            lookahead = min(beyond - start - new, speech.lookahead_frames)
            cut = whole[start - context : start + new + lookahead]
            window = CodecWindow(cut, context, new, lookahead, position)
            [decoded] = self.codec.decode([window], [state])
            parts.append(decoded.audio)
            state, position = decoded.state, position + new
        return np.concatenate(parts)

    @property
    def _loaded(self) -> Family:
        return load_family(self.family)

    def _version(self, model: str) -> Path:
        return self.repository / model / "1"

    def _prompt(self, text: str, reference: Reference | None, encoder: EncoderConfig) -> list[int]:
        frontend = self._loaded.frontend(self._version("frontend"), self.speech)
        voice = encoder.voices[0] if encoder.voices else None
        [segment] = frontend.segments(text, reference.text if reference else (voice and voice.said) or None)
        frames = self._spoken_before(reference)
        spoken = encoder.first_speech + self._loaded.token_map(self.speech).tokens(frames)
        put = {VOICE: voice.words if voice else (), SPEECH: spoken.tolist()}
        return [one for unit in segment.units[:, 0].tolist() for one in put.get(unit, (unit,))]

    def _spoken_before(self, reference: Reference | None) -> Frames:
        """[F, C], that the prompt goes on from: a reference's, or the default voice's."""
        if reference is None:
            voices, books = EncoderConfig.read(self._version("encoder")).voices, len(self.speech.codebooks)
            return np.array(voices[0].frames if voices else (), np.int32).reshape(-1, books)
        frontend = self._loaded.frontend(self._version("frontend"), self.speech)
        reader = ReferenceReader(self.speech, frontend, Manifest.read(self._version("vocoder")).version)
        return self.codec.encode(reader.read(reference.audio, reference.text).audio)


@contextmanager
def imported(
    family: str, write: Callable[[Path, Path], Public], folder: Path, *options: str, is_exported: bool = False
) -> Iterator[Imported]:
    """What `write` makes of two folders, a talker's and a codec's, imported with further options.

    Args:
        is_exported: its codec is decoded by the fastest engine that runs its exported network.
    """
    public = write(folder / "public", folder / "codec")
    command = [sys.executable, "-m", "build_engines", "import-checkpoint", family, folder / "public"]
    command += ["--codec", folder / "codec", "--out", folder / "repository", *options]
    # Narrower products would turn the tokens of random weights, whose likeliest ones lie close.
    command += ["--precision", "float32"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=_LIMIT_S)
    assert done.returncode == 0, done.stderr
    if is_exported:
        assert main(["export", "--repository", str(folder / "repository")]) == 0
    with (
        served("--repository", folder / "repository", "--exit-timeout", "1") as server,
        Client(server.grpc) as client,
    ):
        yield Imported(family, public, folder / "repository", server, client)


def write_llasa(talker: Path, codec: Path) -> Public:
    """With both kinds of drafts that there are for it: Llasa+'s modules, Medusa's heads."""
    public_folders.write_codec("llasa", codec)
    public_folders.write_llasa_plus(talker)
    made = llasa_tokenizer(public_folders.CODES)
    public = Public(talker, made, public_folders.llama(made).double().eval())
    torch.save(public_folders.medusa_heads(public, blocks=1), talker / "medusa_lm_head.pt")
    return public


def write_orpheus(talker: Path, codec: Path) -> Public:
    public_folders.write_codec("orpheus", codec)
    return public_folders.write_orpheus(talker)


def write_neutts(talker: Path, codec: Path) -> Public:
    """Without voices: it speaks like recordings alone."""
    public_folders.write_codec("neutts", codec)
    return public_folders.write_neutts(talker)


def write_deaf_neutts(talker: Path, codec: Path) -> Public:
    """With a voice, and a codec that only speaks."""
    public = write_neutts(talker, codec)
    (talker / "voices").mkdir()
    (talker / "voices" / "jo.json").write_text(json.dumps(_STORED))
    weights = codec / "model.safetensors"
    speaking = {
        name: value
        for name, value in load_file(weights).items()
        if name.startswith(("acoustic_decoder.", "quantizer."))
    }
    save_file(speaking, weights, metadata={"format": "pt"})
    return public
