"""Puts networks into the model repository in half precision, each with its manifest."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.config import SamplingDefaults
from talkahead.families.phonemic.spectral_codec import speech_format
from talkahead.families.phonemic.spectral_decoder import SpectralDecoder
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.families.phonemic.voice import Voice, save_voices
from talkahead.generation_config import write_sampling
from talkahead.manifest import NAME, Manifest, readable_files
from talkahead.speech_format import SpeechFormat
from torch import nn

from instruments.provenance import LICENCE, source_commit
from training.spectral_autoencoder import SpectralAutoencoder
from training.spectral_corpus import segments_of, teacher
from training.train_talker import ALIGNMENT_HEAD

_SILENT_FRAMES = slice(4, 10)
MODELS = ("vocoder", "encoder", "talker")
VOICES = (
    Voice("heart", "heart"),
    Voice("alto", "heart", pitch=0.82, formants=0.93),
    Voice("tenor", "heart", pitch=0.6, formants=0.86),
)
"""What the codec makes of the voice that the talker has learned."""
SAMPLING = SamplingDefaults(temperature=0.5)
"""Of the shipped talker. From 0.3 to 0.7 its words are heard alike (13.3 to 14.1 % wrong of 120 held-out
sentences); the less is left to chance, the further drafts are followed."""


def silence_code(codec: SpectralAutoencoder) -> int:
    """The code of the silence before the teacher speaks."""
    (segment,) = segments_of("A.")
    speech = teacher().speak(segment.spoken, is_cut=False)
    codes = torch.from_numpy(codec.frames_of(speech)[_SILENT_FRAMES, 0])
    return int(codes.mode().values)


def put(
    network: nn.Module,
    folder: Path,
    command: str,
    data: str,
    steps: int,
    metrics: dict[str, object],
    speech: SpeechFormat | None = None,
) -> None:
    """Saves `network` in half precision into a version folder, with its manifest.

    The talker's weights are bfloat16, as its decode step reads them, so nothing is rounded later. The codec's
    come with the format of all speech, and with its voices.
    """
    assert isinstance(network, SpectralDecoder | TextEncoder | Llama)
    network.to(torch.bfloat16 if isinstance(network, Llama) else torch.float16).save(folder)
    if isinstance(network, Llama):
        write_sampling(SAMPLING, folder, ALIGNMENT_HEAD)
    if speech is not None:
        speech.save(folder)
        save_voices(VOICES, folder)
    written = (path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".safetensors"))
    files = readable_files(path for path in written if path.name != NAME)
    Manifest(command, source_commit(), data, steps, metrics, files, LICENCE).write(folder)


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.export", description=__doc__)
    parser.add_argument(
        "--training", type=Path, default=Path("build/training"), help="what the trainings wrote"
    )
    parser.add_argument("--repository", type=Path, default=Path("model_repository"))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, help="what to export of it")
    parser.add_argument("--data", type=Path, help="what was learned from (dataset.json among the trainings)")
    parser.add_argument(
        "--made-by", default="make train", help="command that the manifests name (%(default)s)"
    )
    parser.add_argument("--note", default="", help="what else the manifests should say of this training")
    options = parser.parse_args()
    source: Path = options.training
    data = json.loads((options.data or source / "dataset.json").read_text(encoding="utf-8"))
    voices = ", ".join(data["voices"])
    described = f"{data['utterances']} utterances of the voices {voices}; hours by split: {data['hours']}"
    described = f"{described}. {options.note}" if options.note else described
    for model in options.models:
        network, report, speech = _trained(model, source, options.repository)
        folder = options.repository / model / "1"
        put(network, folder, options.made_by, described, report["steps"], report["metrics"], speech)
        print(f"export: {folder}")


def _trained(
    model: str, source: Path, repository: Path
) -> tuple[nn.Module, dict[str, Any], SpeechFormat | None]:
    """What a training wrote, what it reached, and beside the codec the format of the speech."""
    report: dict[str, Any]
    if model == "vocoder":
        codec = SpectralAutoencoder.load(source)
        talker = source / "talker" if (source / "talker").exists() else repository / "talker" / "1"
        positions = DecoderConfig.from_file(talker / "config.json").max_position_embeddings
        report = json.loads((source / "codec.report.json").read_text(encoding="utf-8"))
        return codec.decoder, report, speech_format(codec.decoder.config, silence_code(codec), positions)
    report = json.loads((source / "talker.report.json").read_text(encoding="utf-8"))
    return (TextEncoder if model == "encoder" else Llama).load(source / model), report, None


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
