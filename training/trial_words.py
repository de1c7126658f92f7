"""`python -m training.trial_words CHECKPOINT`: word errors and durations of a checkpoint, without a server.

Speaks development texts of every category with all voices in turn, at the served sampling, and writes
`trial.json` beside the checkpoint. For comparing trainings; what users get, `training.evaluate` measures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from talkahead.audio.codec import Codec
from talkahead.backbone.llama import load_llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.text_encoder import TextEncoder
from talkahead.config import RequestOptions
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.text import TextFrontend
from torch import Tensor

from training.findings import LONGEST, SHORTEST
from training.measures.frames import Audio
from training.own_speech import speak
from training.recogniser import Recogniser
from training.sentences import categories
from training.served_speech import to_int16
from training.teacher import Teacher

NAME = "trial.json"
_SLOTS = 16


@dataclass(frozen=True)
class Line:
    """A text of one segment: its symbols int64 [S, 4], its words, and the voice's index."""

    words: str
    symbols: Tensor
    voice: int


@dataclass(frozen=True)
class WordTrial:
    """What a checkpoint reached; rates in percent."""

    steps: int
    held_out_nats: float
    sentences: int
    word_errors_percent: float
    teacher_word_errors_percent: float
    durations_right_percent: float
    word_errors_percent_by_voice: dict[str, float]


def lines(split: str, per_category: int, num_voices: int) -> list[Line]:
    frontend = TextFrontend()
    texts = [text for chosen in categories(split, per_category).values() for text in chosen]
    segments = [found[0] for found in map(frontend.segments, texts) if len(found) == 1]
    return [
        Line(segment.words, torch.from_numpy(segment.symbols.astype(np.int64)), place % num_voices)
        for place, segment in enumerate(segments)
    ]


def prompts(encoder: TextEncoder, chosen: list[Line]) -> Iterator[Tensor]:
    """Each line's prompt [S + 1, D]."""
    with torch.inference_mode():
        for line in chosen:
            length, voice = torch.tensor([len(line.symbols)]), torch.tensor([line.voice])
            yield encoder(line.symbols[None], length, voice)[0].clone()


def spoken(options: argparse.Namespace, chosen: list[Line], encoder: TextEncoder) -> Iterator[Audio]:
    """int16 audio of each line."""
    config, state = load_llama(options.checkpoint / "talker")
    decoder = NativeDecoder(config, state, num_slots=_SLOTS, max_positions=config.max_position_embeddings)
    codec = Codec.load(options.codec)
    sampling = RequestOptions(temperature=options.temperature, top_p=options.top_p)
    said = speak(
        decoder,
        NullDrafter(),
        MatchVerifier(),
        list(prompts(encoder, chosen)),
        sampling,
        seed=1,
    )
    for utterance in said:
        codes = torch.tensor([[token for token in utterance.tokens if token != config.eos_token_id]])
        with torch.inference_mode():
            yield to_int16(codec.decode(codes)[0].numpy())


def measure(options: argparse.Namespace) -> WordTrial:
    encoder = TextEncoder.load(options.checkpoint / "encoder")
    voices = encoder.config.voices
    chosen = lines(options.split, options.per_category, len(voices))
    recogniser, teacher = Recogniser([line.words for line in chosen]), Teacher()
    edits = np.zeros((len(chosen), 3))  # the talker's, the teacher's, words asked
    ratios = []
    for place, (line, audio) in enumerate(zip(chosen, spoken(options, chosen, encoder), strict=True)):
        taught = teacher.speak(line.words, voices[line.voice]).audio
        ours, theirs = recogniser.errors(line.words, audio), recogniser.errors(line.words, taught)
        edits[place] = ours.edits, theirs.edits, ours.words
        ratios.append(len(audio) / len(taught))
    by_voice = {
        name: edits[[line.voice == voice for line in chosen]].sum(0) for voice, name in enumerate(voices)
    }
    ours, theirs, words = edits.sum(0)
    report = json.loads((options.checkpoint / "talker.report.json").read_text())
    right = np.mean([SHORTEST <= ratio <= LONGEST for ratio in ratios])
    return WordTrial(
        steps=report["steps"],
        held_out_nats=report["metrics"]["held_out_nats_per_frame"],
        sentences=len(chosen),
        word_errors_percent=round(100 * ours / words, 2),
        teacher_word_errors_percent=round(100 * theirs / words, 2),
        durations_right_percent=round(100 * float(right), 1),
        word_errors_percent_by_voice={name: round(100 * e[0] / e[2], 2) for name, e in by_voice.items()},
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.trial_words", description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="folder with encoder/ and talker/")
    parser.add_argument("--codec", type=Path, default=Path("build/training/codec"))
    parser.add_argument("--split", default="development")
    parser.add_argument("--per-category", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=RequestOptions.temperature)
    parser.add_argument("--top-p", type=float, default=RequestOptions.top_p)
    options = parser.parse_args()
    result = asdict(measure(options))
    print(json.dumps(result, indent=1))
    (options.checkpoint / NAME).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
