"""A syllable, spoken by the way that clients take: does the server speak?"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from random import Random

from talkahead.launcher.addresses import Addresses

SPEECH_MODEL, CONTROL_MODEL = "tts", "control"
TEXT, _SECONDS = "Ready.", "0.5"
_REFUSALS = ("RESOURCE_EXHAUSTED: ", "INVALID_ARGUMENT: ", "deadline_ms: ")
"""What a server says that is well: it has no room, speaks like recordings alone, or had no slot in time."""
_SHOWN_BYTES = 2_000
_RECORDING_S = 1.5


def is_well(failure: str) -> bool:
    """A syllable was not spoken, for a reason that is no sickness."""
    return any(refusal in failure for refusal in _REFUSALS)


class HealthCheck:
    """Spoken off its caller's thread: `results` becomes readable once it was spoken, or was not."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self.results, self._told = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.is_open = False
        """It was asked for, and nobody has heard what became of it."""

    def start(self) -> None:
        """One at a time."""
        self.is_open = True
        threading.Thread(target=self._say, name="health check", daemon=True).start()

    def result(self) -> str:
        """Why the last one was not spoken; empty when it was."""
        self.is_open = False
        return self.results.recv(_SHOWN_BYTES).decode(errors="replace")

    def close(self) -> None:
        """One that is being spoken is not waited for."""
        for end in (self.results, self._told):
            end.close()

    def _say(self) -> None:
        failure = self._addresses.speak(SPEECH_MODEL, TEXT, {"max_seconds": _SECONDS, **self._recording()})
        with suppress(OSError):  # nobody listens any more
            self._told.send((failure or "").encode()[:_SHOWN_BYTES])

    def _recording(self) -> dict[str, object]:
        """To speak like, where there are no named voices: of noise, for what it says is of no account."""
        rate = self._addresses.recording_rate_hz(CONTROL_MODEL)
        if rate is None:
            return {}
        noise = Random(0)
        samples = [round(noise.uniform(-0.2, 0.2), 3) for _ in range(int(_RECORDING_S * rate))]
        return {"REFERENCE_AUDIO": samples, "REFERENCE_TEXT": TEXT}
