"""Triton's log, readable: one short line per event, noise left out, a model's own error kept whole."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from talkahead.launcher.log_line import LogLevel, LogLine

_LINE = re.compile(r"(?P<level>[IWEFV])\d{4} (?P<time>\S+) +\d+ (?P<source>[^\]]+)\] (?P<text>.*)")
_FAILED = re.compile(r"failed to load '(?P<model>[^']+)' version \d+: (?P<reason>.*)", re.DOTALL)
_LOADED = re.compile(r"successfully loaded '(?P<model>[^']+)'")
_CRASHED = re.compile(r"Signal \((?!15\))\d+\) received")
_TABLE = re.compile(r"\s*[+|]")
_TRACE = re.compile(r"At:$|  ")
_NOISE = (
    "Unable to allocate pinned system memory",
    "pinned_memory_manager",
    "CUDA memory pool disabled",
    "Collecting CPU metrics",
    "Neither cache config",
    "Failed to get processor count",
    "CudaDriverHelper",
    "CUDA driver version is insufficient",
    "Signal (15) received.",
    # Said once, at the end, by `reason`.
    "Failed to create instance",
    "failed to load '",
    "which has no loaded version",
    "failed to load all models",
)
_KEPT_FAILURE_LINES = 40
_KEPT_PRINTED_LINES = 3
_UNTOLD = re.compile(r"Stub process '[^']+' is not healthy")
"""What Triton says of a model whose process is gone."""


_LEVELS = {
    "V": LogLevel.DEBUG,
    "I": LogLevel.INFO,
    "W": LogLevel.WARNING,
    "E": LogLevel.ERROR,
    "F": LogLevel.ERROR,
}


@dataclass
class ServerLog:
    """Reads the log of one server run, line by line."""

    show: Callable[[LogLine], None]
    level: LogLevel = LogLevel.WARNING
    loaded: set[str] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)
    """Why a model did not load, by model."""
    num_errors: int = 0
    """Lines of that level, whether they are shown or not."""
    crash: str = ""
    """The signal that has hit the server, in its own words. Now and then it hangs then, and does not end."""
    _printed: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_PRINTED_LINES))
    """The last lines of processes, past Triton's log."""
    _failing: str | None = None
    """The model whose error goes on over the next lines (a traceback)."""
    _is_shown: bool = False

    def read(self, line: str) -> None:
        match = _LINE.match(line)
        if match is None:
            if crash := _CRASHED.match(line):
                self.crash = crash[0]
            self._read_continuation(line)
            return
        self._failing = None
        level, text = _LEVELS[match["level"]], _plain(match["text"])
        self._notice(text)
        is_noise = any(noise in line for noise in _NOISE)
        self.num_errors += level is LogLevel.ERROR and not is_noise
        self._is_shown = level >= self.level and (self.level is LogLevel.DEBUG or not is_noise)
        if self._is_shown:
            self.show(LogLine(text, level, match["source"], match["time"][:12]))

    def _notice(self, text: str) -> None:
        if match := _LOADED.search(text):
            self.loaded.add(match["model"])
        if match := _FAILED.search(text):
            self._failing = match["model"]
            self.failures[match["model"]] = match["reason"]

    def _read_continuation(self, line: str) -> None:
        """A line without a head: more of the line before, a table of the server, or what a model printed."""
        if self._failing and self.failures[self._failing].count("\n") < _KEPT_FAILURE_LINES:
            self.failures[self._failing] += "\n" + line.removesuffix('"')
            return
        if self.level is not LogLevel.DEBUG and (not line.strip() or _TABLE.match(line)):
            return
        if self.level is not LogLevel.DEBUG and any(noise in line for noise in _NOISE):
            return
        self._printed.append(line.strip())
        # The stack of an error that Triton reports is noise; an exception that ended a process is not.
        self._is_shown |= line.startswith("Traceback ")
        if self._is_shown or not _TRACE.match(line):
            self.show(LogLine(line, is_printed=True))

    def explains_end(self, model: str) -> bool:
        """Why a process ended: its model did not load, and has said why, or another's failure ended them all.

        Args:
            model: empty if it is not known.
        """
        if model and model not in self.loaded:
            return self._tells_why(model)
        return bool(self.failures) if model else any(map(self._tells_why, self.failures))

    def _tells_why(self, model: str) -> bool:
        return model in self.failures and not _UNTOLD.search(self.failures[model])

    @property
    def last_words(self) -> str:
        """Of the processes, for the end of a sentence."""
        return f"; printed last: {' '.join(self._printed)}" if self._printed else ""

    @property
    def reason(self) -> str:
        """Why the server did not start, as far as its log tells."""
        if not self.failures:
            return f"the server stopped by itself{self.last_words}; --log-level info shows its whole log"
        return "\n".join(map(self._reason_of, self.failures))

    def _reason_of(self, model: str) -> str:
        if self._tells_why(model):
            return f"model {model} did not load: {_short(self.failures[model])}"
        return f"the process of model {model} died during the start{self.last_words}"


def _plain(text: str) -> str:
    """Without the quotes and escapes of newer servers."""
    return text.strip().removeprefix('"').removesuffix('"').replace("\\n", "\n").replace('\\"', '"').rstrip()


def _short(reason: str) -> str:
    """The message of a Python model's exception and where it was raised, without the rest of the stack."""
    message, _, places = reason.partition("\n\nAt:")
    place = places.strip().splitlines()[:1]
    return " ".join(
        [message.strip().removeprefix("Internal: "), *(f"(at {where.strip()})" for where in place)]
    )
