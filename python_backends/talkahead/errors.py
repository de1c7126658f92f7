"""Errors that a user meets: each names the field, the value and what is allowed."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Why a request ended in an error; the names follow gRPC's status codes."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    CANCELLED = "CANCELLED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


class TalkaheadError(Exception):
    """An error with a code; its text is a sentence that a user can act on."""

    def __init__(self, message: str, code: Code = Code.INTERNAL) -> None:
        super().__init__(message)
        self.code = code


class LaunchError(TalkaheadError):
    """The server cannot be started; the message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Code.UNAVAILABLE)


class BadRequest(TalkaheadError):
    """A request that cannot be served as it stands.

    Args:
        field: tensor or parameter name, as the client wrote it.
        value: the offending value; long ones are shortened in the message.
        allowed: what would have been accepted, as the rest of a sentence ("1 to 20,000 characters").
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > 80:
            shown = f"{shown[:60]}... ({len(shown)} characters)"
        super().__init__(f"{field}: {shown} is not accepted; allowed: {allowed}", Code.INVALID_ARGUMENT)
        self.field = field
        self.value = value
        self.allowed = allowed


class DeadlinePassed(TalkaheadError):
    """A stream took longer than its client gives it."""

    def __init__(self, deadline_ms: int) -> None:
        super().__init__(f"deadline_ms: {deadline_ms} ms have passed", Code.CANCELLED)


def answer_to_check(error: TalkaheadError) -> TalkaheadError:
    """The error that ends a health check.

    Who has no room, or wants a recording, is well: a proxy that looks for the name of an output in every
    answer finds it in this one.
    """
    if isinstance(error, DeadlinePassed) or error.code in _NO_SICKNESS:
        return TalkaheadError(f"{error} (well, without IS_LAST)", error.code)
    return error


_NO_SICKNESS = frozenset({Code.RESOURCE_EXHAUSTED, Code.INVALID_ARGUMENT})


class ArtifactMismatch(TalkaheadError):
    """A weight file that does not fit its manifest or model; the message ends with what rebuilds it."""
