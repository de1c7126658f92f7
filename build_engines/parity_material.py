"""What engines are compared on: texts, and the frames that a codec is given."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from talkahead.config import RequestOptions
from talkahead.draft_training.own_speech import OwnSpeech, Talker
from talkahead.draft_training.reader import VERSION, Reader
from talkahead.families.phonemic.frontend import NAME
from talkahead.families.registry import load_family
from talkahead.generation_config import read_sampling
from talkahead.speech_format import SpeechFormat

from build_engines.network_source import version_folder
from instruments.environment import ROOT

TEXTS = ROOT / "perf" / "texts.txt"
_PROMPTS = 16
_UTTERANCES, _FRAMES = 4, 200
_DRAWN_UTTERANCES, _DRAWN_FRAMES = 2, 100


def read_texts() -> list[str]:
    return [line for line in TEXTS.read_text(encoding="utf-8").splitlines() if line.strip()]


def frames_of(repository: Path) -> npt.NDArray[np.int64]:
    """[utterances, F, C]: what our talker says by itself; of imported ones, which are too large to speak that
    much here, frames that are drawn at random, one as likely as another."""
    speech = SpeechFormat.read(version_folder(repository, "vocoder"))
    return _spoken(repository) if speech.family == NAME else _drawn(speech)


def _drawn(speech: SpeechFormat) -> npt.NDArray[np.int64]:
    draw, shape = np.random.default_rng(1), (_DRAWN_UTTERANCES, _DRAWN_FRAMES)
    return np.stack([draw.integers(0, size, shape) for size in speech.codebooks], axis=-1)


def _spoken(repository: Path) -> npt.NDArray[np.int64]:
    """Cut of the speech of one text after another."""
    reader, talker = Reader(repository), repository / "talker" / VERSION
    prompts = list(islice(reader.prompts(read_texts()), _PROMPTS))
    sampling = RequestOptions(**vars(read_sampling(talker)))
    spoken = OwnSpeech(Talker.serving(talker), prompts, sampling, seed=1).plain()
    tokens = load_family(reader.speech.family).token_map(reader.speech)
    frames = [
        tokens.frames(np.array([one for one in said.tokens if one != tokens.eos], np.int32))
        for said in spoken
    ]
    joined = np.concatenate(frames).astype(np.int64)
    return np.resize(joined, (_UTTERANCES, _FRAMES, joined.shape[1]))
