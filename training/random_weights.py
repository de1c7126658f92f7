"""Writes untrained artifacts of the shipped shapes, for a server before a training ends: noise, no speech."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from talkahead.audio.codec import Codec, CodecConfig
from talkahead.backbone.llama import Llama, LlamaConfig
from talkahead.backbone.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.text.symbols import NUM_SYMBOLS

from training.export import put


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.random_weights", description=__doc__)
    parser.add_argument("--repository", type=Path, default=Path("model_repository"))
    repository = parser.parse_args().repository
    torch.manual_seed(0)
    codec = CodecConfig()
    size = codec.codebook_size
    encoder = TextEncoderConfig(voices=("slt", "rms"), num_symbols=NUM_SYMBOLS)
    networks = {
        "vocoder": Codec(codec),
        "encoder": TextEncoder(encoder),
        "talker": Llama(LlamaConfig(vocab_size=size + 1, eos_token_id=size)),
    }
    for model, network in networks.items():
        put(network, repository / model / "1", "python -m training.random_weights", "none: untrained", 0, {})


if __name__ == "__main__":
    main()
