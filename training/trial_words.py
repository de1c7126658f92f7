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
from talkahead.config import RequestOptions
from talkahead.draft_training.own_speech import speak
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter

from instruments.material import Sentence, held_out_sentences
from instruments.measures.duration import LONGEST, SHORTEST
from instruments.measures.ear import Ear
from instruments.measures.word_errors import WordErrors
from instruments.prompts import sentence_prompts
from instruments.recording import Recording
from instruments.teacher import SAMPLE_RATE, Teacher

NAME = "trial.json"
_SLOTS = 16
_SEED = 1
"""Of the choice of sentences, and of the first one's draws."""


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


def spoken(options: argparse.Namespace, chosen: list[Sentence], encoder: TextEncoder) -> Iterator[Recording]:
    """Each sentence, spoken."""
    config, state = load_llama(options.checkpoint / "talker")
    decoder = NativeDecoder(config, state, num_slots=_SLOTS, max_positions=config.max_position_embeddings)
    codec = Codec.load(options.codec)
    sampling = RequestOptions(temperature=options.temperature, top_p=options.top_p)
    said = speak(
        decoder,
        NullDrafter(),
        MatchVerifier(),
        sentence_prompts(encoder, chosen),
        sampling,
        seed=_SEED,
    )
    for utterance in said:
        codes = torch.tensor([[token for token in utterance.tokens if token != config.eos]])
        with torch.inference_mode():
            yield Recording(codec.decode(codes)[0].numpy(), codec.config.sample_rate_hz)


def measure(options: argparse.Namespace) -> WordTrial:
    encoder = TextEncoder.load(options.checkpoint / "encoder")
    voices = encoder.config.voices
    chosen = held_out_sentences(options.split, options.per_category, voices, _SEED)
    ear, teacher = Ear(), Teacher()
    edits = np.zeros((len(chosen), 3))  # the talker's, the teacher's, words asked
    ratios = []
    for place, (one, recording) in enumerate(zip(chosen, spoken(options, chosen, encoder), strict=True)):
        taught = Recording.of_int16(teacher.speak(one.words, one.voice).audio, SAMPLE_RATE)
        ours, theirs = (WordErrors.between(one.words, ear.hear(said)) for said in (recording, taught))
        edits[place] = ours.edits, theirs.edits, ours.words
        ratios.append(recording.seconds / taught.seconds)
    by_voice = {name: edits[[one.voice == name for one in chosen]].sum(0) for name in voices}
    ours, theirs, words = edits.sum(0)
    report = json.loads((options.checkpoint / "talker.report.json").read_text(encoding="utf-8"))
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
    (options.checkpoint / NAME).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
