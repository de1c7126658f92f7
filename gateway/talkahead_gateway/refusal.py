"""Why a request is not served, in the words and the form of OpenAI's interface."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from starlette.responses import Response
from talkahead_client import (
    Cancelled,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    ServerUnavailable,
    SpeechError,
)

_STATUSES: dict[type[SpeechError], int] = {
    InvalidRequest: 400,
    NotFound: 503,  # of a model: what answers at that address is not one of our servers
    ServerUnavailable: 503,
    Cancelled: 503,
    DeadlineExceeded: 504,
}
"""Of what a server says; whatever else it says is its own failure."""

_TYPES = {401: "authentication_error", 429: "rate_limit_error"}

_FIELD = re.compile(r"^(\w+)(?=: )")
_FIELDS = {
    "TEXT": "input",
    "VOICE": "voice",
    "REFERENCE_AUDIO": "audio_sample",
    "REFERENCE_TEXT": "ref_text",
}
"""A server's own names of what has another name here."""

_SHOWN_CHARACTERS = 60


class Refusal(Exception):
    """An answer in place of speech.

    Args:
        status: HTTP's.
        message: a sentence that a user can act on.
        param: the field that is at fault, if one is.
        code: OpenAI's word for the reason, where programs look at it.
        retry_after_s: when trying again makes sense, in seconds.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    @classmethod
    def of_field(cls, field: str, value: object, allowed: str) -> Self:
        """A value that is not accepted."""
        return cls(400, f"{field}: {_shown(value)} is not accepted; allowed: {allowed}", param=field)

    @classmethod
    def of_error(cls, error: SpeechError) -> Self:
        """What a server refuses, by the names that its fields have here."""
        found = _FIELD.match(str(error)) if isinstance(error, InvalidRequest) else None
        param = _FIELDS.get(found[1], found[1]) if found else None
        message = _FIELD.sub(param, str(error)) if param else str(error)
        return cls(_STATUSES.get(type(error), 500), message, param=param)

    @classmethod
    def of_own_failure(cls) -> Self:
        return cls(500, "the gateway failed at this request; its log says why")

    @property
    def is_elsewhere(self) -> bool:
        """Whether another server may well speak the same request."""
        return self.status in (429, 503)

    def sentence(self, names: Mapping[str, str]) -> str:
        """Its message, where a field at fault has another name than OpenAI's."""
        name = names.get(self.param or "")
        return str(self) if name is None else name + str(self).removeprefix(self.param or "")

    def response(self) -> Response:
        """OpenAI's error object. In ASCII, as a value that is shown may hold half a surrogate pair."""
        error = {"message": str(self), "type": self._type, "param": self.param, "code": self.code}
        return Response(json.dumps({"error": error}), self.status, dict(self._headers()), "application/json")

    @property
    def _type(self) -> str:
        return _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")

    def _headers(self) -> Iterator[tuple[str, str]]:
        if self.status == 401:
            yield "WWW-Authenticate", "Bearer"
        if self.retry_after_s is not None:
            yield "Retry-After", str(max(1, math.ceil(self.retry_after_s)))
            # HTTP's header knows whole seconds alone; OpenAI's clients read this one first.
            yield "retry-after-ms", str(math.ceil(1e3 * self.retry_after_s))


def one_of(values: Sequence[str]) -> str:
    return ", ".join(values)


def _shown(value: Any) -> str:  # noqa: ANN401
    shown = repr(value)
    if len(shown) <= _SHOWN_CHARACTERS:
        return shown
    return f"{shown[:_SHOWN_CHARACTERS]}... ({len(shown)} characters)"
