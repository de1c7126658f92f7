"""`talkahead speak`: a server for one sentence, from its start to its stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from talkahead.config import SPECULATION
from talkahead.launcher.log_line import LogLine
from talkahead.launcher.server_process import ServeOptions
from talkahead.launcher.supervisor import Supervisor, show

DRAFTING = ("drafter", "verifier", *SPECULATION)
"""Request parameters that say how to draft ahead."""
PARAMETERS = ("speed", *DRAFTING)
"""Those that this command takes."""

_FAILED = 1


class OneUtterance:
    """Runs the client's command line once the server is ready, then asks the launcher to stop."""

    def __init__(
        self, options: ServeOptions, text: str, out: Path, voice: str | None, parameters: Mapping[str, str]
    ) -> None:
        server = f"{options.addresses.host}:{options.addresses.grpc}"
        self._command = [
            sys.executable,
            "-m",
            "talkahead_client.say",
            "--server",
            server,
            "--output",
            str(out),
            "--speed-up",
        ]
        self._command += ["--voice", voice] if voice else []
        for name, value in parameters.items():
            self._command += [option(name), value]
        self._command += ["--", text]
        self.status = _FAILED

    def start(self, ready_line: str) -> None:
        show(LogLine(ready_line))
        threading.Thread(target=self._run, name="utterance", daemon=True).start()

    def _run(self) -> None:
        self.status = subprocess.run(self._command, check=False).returncode
        os.kill(os.getpid(), signal.SIGTERM)


def option(parameter: str) -> str:
    """The name of a request parameter on a command line, ours and the client's."""
    return f"--{parameter.replace('_', '-')}"


def speak(
    options: ServeOptions, text: str, out: Path, voice: str | None, parameters: Mapping[str, str]
) -> int:
    """The client's exit status, or that of a server that did not start.

    Args:
        parameters: some of `PARAMETERS`, as they go to the client, which prints what drafting ahead brought.
    """
    utterance = OneUtterance(options, text, out, voice, parameters)
    served = Supervisor(replace(options, restarts=0), show, utterance.start).run()
    return served or utterance.status
