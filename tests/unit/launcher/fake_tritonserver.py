"""Stands in for tritonserver in tests of the launcher: same flags, log lines, pages and child processes.

Each model of the repository may hold a file `behaviour`: "fail" (does not load), "die" (its process ends soon
after the start, once), "vanish" (its process ends while it loads, and nothing is made of that), "hoard" (it
holds so much memory that the kernel takes its time to end it). Files in the
repository: `open_streams` is the number that control tells, or how it does not answer: "late" (only when
there is another), "hangs up", "busy" (an error), "cut" (short); `mute` is the error of each request for
speech, a line per request, the last for all that follow; `complaint` becomes an error in the log; `unloaded`
names a model that is not in the index; `crash` makes it say that it was hit by a signal, and do nothing any
more, after it has ended the processes of its models when the file says "dead models"; with "dying model" it
does not wait for the end of the first, and ends itself.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FLAGS = dict(argument[2:].partition("=")[::2] for argument in sys.argv[1:] if argument.startswith("--"))
HOARD_BYTES = 400_000_000
REPOSITORY = Path(FLAGS["model-repository"])
MODELS = sorted(path.parent for path in REPOSITORY.glob("*/config.pbtxt"))


def log(level: str, text: str) -> None:
    stamp = datetime.now().strftime("%m%d %H:%M:%S.%f")
    print(f'{level}{stamp} {os.getpid()} model_lifecycle.cc:1] "{text}"', file=sys.stderr, flush=True)


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer("")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/v2/repository") and not self.has_key():
            self.send_error(403)
        elif self.path == "/v2/models/control/generate":
            self.tell_voices() if json.loads(body)["COMMAND"] == "voices" else self.tell_load()
        else:
            self.answer(index() if self.path == "/v2/repository/index" else speech())

    def tell_voices(self) -> None:
        self.answer(result({"voices": ["one"], "sample_rate_hz": 24_000}))

    def tell_load(self) -> None:
        match open_streams():
            case "late":
                while open_streams() == "late":
                    time.sleep(0.02)
            case "hangs up":
                pass
            case "busy":
                self.send_error(503)
            case "cut":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
            case number:
                self.answer(result({"open_streams": int(number)}))

    def has_key(self) -> bool:
        """Or there is none to have."""
        flag = "--http-restricted-api=model-repository:"
        locks = [
            argument.removeprefix(flag).partition("=") for argument in sys.argv if argument.startswith(flag)
        ]
        return all(self.headers.get(name) == key for name, _, key in locks)

    def answer(self, text: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        """Silent."""


def open_streams() -> str:
    path = REPOSITORY / "open_streams"
    return path.read_text() if path.exists() else "0"


def index() -> str:
    unloaded = REPOSITORY / "unloaded"
    gone = unloaded.read_text() if unloaded.exists() else ""
    return json.dumps([{"name": model.name, "version": "1", "state": "READY"} for model in MODELS
                       if model.name != gone])  # fmt: skip


def result(told: dict[str, object]) -> str:
    return json.dumps({"RESULT": json.dumps(told)})


def speech() -> str:
    mute = REPOSITORY / "mute"
    lines = mute.read_text().splitlines() if mute.exists() else [""]
    if len(lines) > 1:
        mute.write_text("\n".join(lines[1:]) + "\n")
    return json.dumps({"error": lines[0]}) if lines[0] else "data: {}\n\n"


def behaviour(model: Path) -> str:
    path = model / "behaviour"
    return path.read_text() if path.exists() else ""


def start(model: Path) -> subprocess.Popen[bytes]:
    """A process that looks like the Python backend's, for one model."""
    seconds = "60"
    if behaviour(model) == "die":
        seconds = "0.7"
        (model / "behaviour").unlink()
    if behaviour(model) == "vanish":
        last_words = "import sys; sys.exit('cannot open libpython')"
        return subprocess.Popen([sys.executable, "-c", last_words])
    # An interpreter under the stub's name, which runs the "model".
    script = model / "1" / "model.py"
    script.parent.mkdir(exist_ok=True)
    hoard = HOARD_BYTES if behaviour(model) == "hoard" else 0
    holding = f"hoard = b'x' * {hoard}; print('ready', flush=True)"
    script.write_text(f"import sys, time; {holding}; time.sleep(float(sys.argv[1]))")
    command = ["triton_python_backend_stub", str(script), seconds]
    child = subprocess.Popen(command, executable=sys.executable, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def end(children: list[subprocess.Popen[bytes]]) -> None:
    """Returns when they are dead; their statuses are left to whoever looks."""
    for child in children:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def main() -> int:
    (REPOSITORY / "arguments").write_text(json.dumps([sys.argv[1:], {**os.environ}]))
    failing = [model for model in MODELS if behaviour(model) == "fail"]
    for model in failing:
        stack = "\\n\\nAt:\\n  model.py(3): x\\n"
        log("E", f"failed to load '{model.name}' version 1: Internal: ValueError: no weights{stack}")
    if failing:
        print("error: creating server: Internal - failed to load all models", file=sys.stderr)
        return 1
    for port in ("http-port", "metrics-port"):
        pages = ThreadingHTTPServer((FLAGS["http-address"], int(FLAGS[port])), Pages)
        threading.Thread(target=pages.serve_forever, daemon=True).start()
    # As Triton tries the backend's program out; it waits for it, sooner or later.
    with subprocess.Popen(["false"]):
        time.sleep(0.4)
    children = [start(model) for model in MODELS]
    log("E", "CudaDriverHelper has not been initialized.")
    log("W", "mind the gap")
    for model in (one for one in MODELS if behaviour(one) != "vanish"):
        log("I", f"successfully loaded '{model.name}'")
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    crash, complaint = REPOSITORY / "crash", REPOSITORY / "complaint"
    while not stopped.wait(0.05):
        if crash.exists():
            cause = crash.read_text()
            if cause == "dead models":
                end(children)
            if cause == "dying model":
                children[0].kill()
            print("Signal (11) received.", file=sys.stderr, flush=True)
            crash.unlink()
            if cause == "dying model":
                os._exit(1)
            signal.pause()
        if complaint.exists():
            log("E", complaint.read_text())
            complaint.unlink()
    end(children)
    if (REPOSITORY / "stubborn").exists():
        time.sleep(60)
    return 0


sys.exit(main())
