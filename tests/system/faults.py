"""Model repositories in which things go wrong when a test says so, or slowly. Nothing of it is in what is
shipped: links to the shipped models, and a `model.py` with some lines after its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from served import REPOSITORY
from shipped import SPEECH

_STRIKES = """

def _strikes(fault):
    \"\"\"Once, when the test has asked for it.\"\"\"
    from pathlib import Path

    try:
        (Path({folder!r}) / fault).unlink()
    except FileNotFoundError:
        return False
    return True
"""

_SEND = """

class _Sender:
    \"\"\"Triton's, of which one call fails; like Triton's own it is closed by the final flag even so.\"\"\"

    def __init__(self, sender):
        self._sender, self._is_closed = sender, False

    def send(self, response=None, flags=0):
        if self._is_closed:
            raise RuntimeError("the sender has been closed")
        if response is not None and _strikes("send {model}"):
            self._is_closed = bool(flags)
            raise RuntimeError("injected: no shared memory")
        self._sender.send(response, flags)


class _Request:
    def __init__(self, request):
        self._request = request

    def __getattr__(self, name):
        return getattr(self._request, name)

    def get_response_sender(self):
        return _Sender(self._request.get_response_sender())


class TritonPythonModel(TritonPythonModel):
    def execute(self, requests):
        return super().execute([_Request(request) for request in requests])
"""

_STEP = """

def _failing_now_and_then(run):
    def step(self, slots, stop=None):
        if _strikes("step"):
            raise RuntimeError("injected: no memory")
        return run(self, slots, stop)

    return step


from talkahead.engine.decode_step import DecodeStep

DecodeStep.run = _failing_now_and_then(DecodeStep.run)
"""

_WINDOW = """

def _spoiling_now_and_then(read):
    from dataclasses import replace

    def spoilt(self, request):
        window = read(self, request)
        return replace(window, frames=window.frames + 1_000_000) if _strikes("window") else window

    return spoilt


from talkahead.serving.vocoder_server import VocoderServer

VocoderServer._read = _spoiling_now_and_then(VocoderServer._read)
"""

_SLOW = """

def _slowly(decode):
    import time

    def decode_in_its_time(windows, states):
        began = time.perf_counter()
        decoded = decode(windows, states)
        frames = sum(window.new for window in windows)
        time.sleep(max(began + {frame_s} * frames - time.perf_counter(), 0.0))
        return decoded

    return decode_in_its_time


def _of_slow_ones(make):
    def codec(self, *arguments):
        made = make(self, *arguments)
        made.decode = _slowly(made.decode)
        return made

    return codec


from talkahead.families.registry import load_family

_Family = type(load_family({family!r}))
_Family.codec = _of_slow_ones(_Family.codec)
"""

_LEAK = """

def _keeping(read):
    kept = []

    def keep_and_read(self, *arguments):
        kept.append(b"x" * {num_bytes})
        return read(self, *arguments)

    return keep_and_read


from talkahead.serving.talker_server import TalkerServer

TalkerServer._read = _keeping(TalkerServer._read)
"""

_FAULTS = {"frontend": _SEND, "encoder": _SEND, "talker": _STEP + _SEND, "vocoder": _WINDOW + _SEND}


class Faults:
    """A repository in `folder`, and the faults in it: "send MODEL", "step", "window"."""

    def __init__(self, folder: Path) -> None:
        self._requested = folder / "requested"
        self._requested.mkdir()
        fill = {"{folder!r}": repr(str(self._requested))}
        self.repository = _repository(
            folder,
            {model: _filled(_STRIKES + lines, fill | {"{model}": model}) for model, lines in _FAULTS.items()},
        )

    def strike(self, fault: str) -> None:
        """The next chance is taken, once."""
        (self._requested / fault).touch()

    def has_struck(self, fault: str) -> bool:
        return not (self._requested / fault).exists()


def slow_codec(folder: Path, times: float) -> Path:
    """A repository whose codec takes so many times as long for a window as that sounds."""
    fill = {"{frame_s}": str(times / SPEECH.frames_per_s), "{family!r}": repr(SPEECH.family)}
    return _repository(folder, {"vocoder": _filled(_SLOW, fill)})


def leaking_talker(folder: Path, num_bytes: int) -> Path:
    """A repository whose talker keeps so much of every segment for ever."""
    return _repository(folder, {"talker": _filled(_LEAK, {"{num_bytes}": str(num_bytes)})})


def _repository(folder: Path, lines: Mapping[str, str]) -> Path:
    """The shipped one, with lines after some models' own."""
    repository = folder / "model_repository"
    repository.mkdir()
    for model in REPOSITORY.iterdir():
        if model.name in lines:
            _put(model, repository, lines[model.name])
        else:
            (repository / model.name).symlink_to(model)
    return repository


def _put(model: Path, repository: Path, lines: str) -> None:
    version = repository / model.name / "1"
    version.mkdir(parents=True)
    for source in (*model.iterdir(), *(model / "1").iterdir()):
        if source.name not in ("1", "model.py"):
            (repository / source.relative_to(REPOSITORY)).symlink_to(source)
    script = (model / "1" / "model.py").read_text()
    (version / "model.py").write_text(script + lines)


def _filled(lines: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        lines = lines.replace(name, value)
    return lines
