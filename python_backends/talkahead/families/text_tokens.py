"""Text to the ids of a checkpoint's own tokenizer, read by the library `tokenizers` alone."""

from __future__ import annotations

from itertools import takewhile
from operator import itemgetter
from pathlib import Path

from talkahead.errors import ArtifactMismatch, BadRequest
from talkahead.families.library import library
from talkahead.text.inline_marks import FIELD

TOKENIZER = "tokenizer.json"


class TextTokens:
    """The tokenizer in a folder; raises ArtifactMismatch where there is none.

    Attributes:
        opening: ids that it puts before a text of its own accord, such as the token of a beginning.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / TOKENIZER
        if not path.exists():
            raise ArtifactMismatch(
                f"{path} is missing; it comes with the checkpoint, as its fast tokenizer, or "
                "with the one whose weights these were tuned from: import-checkpoint --base FOLDER (Llasa+'s "
                "weights come alone, and want config.json and tokenizer of Llasa-1B)"
            )
        tokenizer = library("tokenizers").Tokenizer
        try:
            self._tokenizer = tokenizer.from_file(str(path))
        except Exception as error:  # the library's own are no narrower
            raise ArtifactMismatch(f"{path} cannot be read as a fast tokenizer: {error}") from error
        added = self._tokenizer.get_added_tokens_decoder()
        begun = self._tokenizer.encode("a")
        specials = zip(begun.ids, begun.special_tokens_mask, strict=True)
        self.opening: list[int] = [number for number, _ in takewhile(itemgetter(1), specials)]
        self._added: dict[int, str] = {number: token.content for number, token in added.items()}

    def ids(self, text: str) -> list[int]:
        """Of a text in which the checkpoint's own tokens may stand; nothing is put before or after it."""
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def id_of(self, token: str) -> int | None:
        """Of one of the checkpoint's own tokens; None if it is none."""
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def refuse_own(self, text: str) -> None:
        """Returns if a client's text holds none of the checkpoint's own tokens, which end it or are speech.

        Raises:
            BadRequest: it holds one.
        """
        for number in self.ids(text):
            if number in self._added:
                raise BadRequest(FIELD, self._added[number], "text without tokens of the talker's own")
