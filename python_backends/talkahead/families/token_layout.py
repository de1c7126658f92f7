"""Which of a tokenizer's tokens are speech: this is what tells the families' checkpoints apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.errors import ArtifactMismatch
from talkahead.families.text_tokens import TOKENIZER, TextTokens


@dataclass(frozen=True)
class SpeechTokens:
    """Ids of speech in a checkpoint's tables: codes in a row from `first` on, and the end of speech.

    Args:
        codebooks: sizes [C].
    """

    first: int
    codebooks: tuple[int, ...]
    end: int

    @property
    def num_codes(self) -> int:
        return sum(self.codebooks)


@dataclass(frozen=True)
class TokenLayout:
    """Names of a family's speech tokens.

    Args:
        code: name of a code's token by its number, as a format.
        end: name of the token that ends speech.
        first: number of the first code's token.
        codebooks: C, all of one size: a frame's codes have tokens of their own, one codebook after another.
    """

    code: str
    end: str
    first: int = 0
    codebooks: int = 1

    def is_in(self, tokens: TextTokens) -> bool:
        return None not in (tokens.id_of(self._name(0)), tokens.id_of(self.end))

    def find(self, tokens: TextTokens, config: DecoderConfig, folder: Path) -> SpeechTokens:
        """Of a tokenizer that has this layout.

        Raises:
            ArtifactMismatch: codes are not in a row, or the tables have no rows for them.
        """
        ids = self._ids(tokens)
        size = len(ids) // self.codebooks
        found = SpeechTokens(ids[0], (size,) * self.codebooks, tokens.id_of(self.end) or 0)
        path = folder / TOKENIZER
        for number, token in enumerate(ids[: found.num_codes]):
            if token != found.first + number:
                raise ArtifactMismatch(
                    f"{path}: {self._name(number)} has id {token}; allowed: {found.first + number}, as "
                    f"codes have ids in a row from {self._name(0)} on"
                )
        if (last := max(found.first + found.num_codes - 1, found.end)) >= config.vocab_size:
            raise ArtifactMismatch(
                f"{path}: speech has ids up to {last}, which config.json's vocab_size of {config.vocab_size} "
                f"has no rows for; allowed: at least {last + 1}"
            )
        return found

    def _ids(self, tokens: TextTokens) -> list[int]:
        ids: list[int] = []
        for number in count():
            token = tokens.id_of(self._name(number))
            if token is None:
                return ids
            ids.append(token)
        raise AssertionError("counting never ends")

    def _name(self, number: int) -> str:
        return self.code.format(self.first + number)
