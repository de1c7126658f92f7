"""What can go wrong with speech, by what a caller would do about it. Every error has a `code`."""

from __future__ import annotations

import re


class SpeechError(Exception):
    """Base of all errors of this package; its text is a sentence that a user can act on.

    Attributes:
        code: a gRPC status name where the server gave one, else one of this package's own.
    """

    code = "INTERNAL"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code


class InvalidRequest(SpeechError):
    """The request cannot be served as it stands; the text names field, value and what is allowed."""

    code = "INVALID_ARGUMENT"


class NotFound(SpeechError):
    """The server has no such model, or no such stream."""

    code = "NOT_FOUND"


class ServerBusy(SpeechError):
    """The server is full, or late; the text carries the predicted wait or pace. Try later, or another one."""

    code = "RESOURCE_EXHAUSTED"


class ServerUnavailable(SpeechError):
    """No server answers at this address, or it is not ready yet."""

    code = "UNAVAILABLE"


class ServerFailure(SpeechError):
    """The server failed at a request that it had accepted."""

    code = "INTERNAL"


class Cancelled(SpeechError):
    """The stream was cancelled: by this client, by another, or by a server that shuts down."""

    code = "CANCELLED"


class DeadlineExceeded(SpeechError):
    """A deadline of the request passed; what had arrived before was delivered."""

    code = "DEADLINE_EXCEEDED"


class StreamBroken(SpeechError):
    """The stream stopped before its end, or what arrived breaks the protocol (such as a gap)."""

    code = "STREAM_BROKEN"


_BY_CODE: dict[str, type[SpeechError]] = {
    "INVALID_ARGUMENT": InvalidRequest,
    "OUT_OF_RANGE": InvalidRequest,
    "UNIMPLEMENTED": InvalidRequest,
    "NOT_FOUND": NotFound,
    "RESOURCE_EXHAUSTED": ServerBusy,
    "UNAVAILABLE": ServerUnavailable,
    "CANCELLED": Cancelled,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
}

# Triton puts the ensemble's name before the text of a step's error.
_ENSEMBLE = re.compile(r"^in ensemble '[^']*', ")
# A server's error has fewer codes than gRPC, so the text may begin with the exact one.
_NAMED_CODE = re.compile(r"^(" + "|".join([*_BY_CODE, "INTERNAL"]) + r"): ")
# gRPC's own words where a proxy or a connection ends a stream in the middle, under whatever code.
_CUT = re.compile(r"RST_STREAM|Stream removed")
# Triton's words for what comes while it stops, on a stream without a code.
_STOPPING = re.compile(r"Server is stopping|Request for unknown model: '\w+' has no available versions")


def from_status(code: str, details: str, *, is_speaking: bool) -> SpeechError:
    """The error for a gRPC status.

    Args:
        code: name of the status.
        details: its text.
        is_speaking: whether audio had arrived; a server that is gone then has broken the stream.
    """
    message = _ENSEMBLE.sub("", details)
    named = _NAMED_CODE.match(message)
    if named:
        code, message = named.group(1), message[named.end() :]
    elif code == "UNAVAILABLE" or _CUT.search(message) or _STOPPING.search(message):
        if is_speaking:
            return StreamBroken(f"the server went away while it spoke: {message}")
        return ServerUnavailable(message or code)
    return _BY_CODE.get(code, ServerFailure)(message or code, code)
