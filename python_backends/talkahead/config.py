"""What a user can set: the options of a request, the parameters of a model, the process's environment.

The only module that reads the environment.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, Self

from talkahead.errors import BadRequest

ParameterValue = str | int | float | bool


class Setting(Protocol):
    """How one request parameter is read. `read` raises ValueError for what is not allowed."""

    @property
    def allowed(self) -> str: ...

    def read(self, value: ParameterValue) -> ParameterValue: ...


@dataclass(frozen=True)
class Whole:
    """An integer; Triton carries it as int64, older clients as a string."""

    low: int
    high: int
    note: str = ""

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low:,} to {self.high:,}{self.note}"

    def read(self, value: ParameterValue) -> int:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError(value)
        number = int(value)
        if not self.low <= number <= self.high:
            raise ValueError(value)
        return number


@dataclass(frozen=True)
class Real:
    """A finite number; Triton before 25.x has no such parameter type, so strings are numbers too."""

    low: float
    high: float
    is_open: bool = False
    """The lower bound itself is not allowed."""
    note: str = ""

    @property
    def allowed(self) -> str:
        bound = f"above {self.low:g} and up to" if self.is_open else f"from {self.low:g} to"
        return f"a number {bound} {self.high:g}{self.note}"

    def read(self, value: ParameterValue) -> float:
        if isinstance(value, bool):
            raise ValueError(value)
        number = float(value)
        if not self.low <= number <= self.high or (self.is_open and number == self.low) or math.isnan(number):
            raise ValueError(value)
        return number


@dataclass(frozen=True)
class Name:
    """Any: who looks it up refuses it, with those that there are."""

    @property
    def allowed(self) -> str:
        return "a name"

    def read(self, value: ParameterValue) -> str:
        if not isinstance(value, str):
            raise ValueError(value)
        return value


@dataclass(frozen=True)
class Flag:
    """Yes or no; a string where Triton carries no such type."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def read(self, value: ParameterValue) -> bool:
        if isinstance(value, bool):
            return value
        if value not in ("true", "false"):
            raise ValueError(value)
        return value == "true"


LEAST_URGENT, _USUAL_URGENCY, MOST_URGENT = 1, 2, 3


def patience(urgency: int) -> float:
    """How long listeners of an urgency wait, over those of the usual one."""
    return 2.0 ** (_USUAL_URGENCY - urgency)


_TRANSPORT_PREFIX = "triton_"
"""Triton's own parameters (triton_enable_empty_final_response), which some versions hand on to the models."""


FIRST_CHUNK_MS, CHUNK_MS = 120.0, 500.0
"""Where a request does not set `first_chunk_frames`, `chunk_frames`. With 40 ms the first is no earlier, for
steps are cheap, and a stream of 16 runs dry seven times as often. On a machine that is nearly full, the worst
of 1,000 listeners had 8 ms in hand at the second chunk where the first lasts 100 ms, and 70 where it lasts
125, which came as early."""


_SETTING, _IS_DRAFTING = "setting", "is_drafting"
"""Of the metadata of a request parameter's field."""


def _asked(setting: Setting, default: Any, *, is_drafting: bool = False) -> Any:  # noqa: ANN401
    """A request parameter: what it may be, and what it is where a request does not say."""
    return field(default=default, metadata={_SETTING: setting, _IS_DRAFTING: is_drafting})


@dataclass(frozen=True)
class SamplingDefaults:
    """How a checkpoint wants its tokens drawn, where a request does not say (`generation_config.py`)."""

    temperature: float = _asked(Real(0.0, 2.0, note=" (0 = the most likely frame)"), 0.7)
    top_p: float = _asked(Real(0.0, 1.0, is_open=True), 0.95)
    top_k: int = _asked(Whole(0, 65_536, note=" (0 = off)"), 0)
    """0 = off."""
    repetition_penalty: float = _asked(Real(1.0, 2.0, note=" (1 = off)"), 1.0)
    """Of every token that the talker has said, its reference's among them; 1 = off."""
    ras_win_len: int = _asked(Whole(0, 100, note=" (0 = off)"), 0)
    """Tokens that repetition-aware sampling looks back at; 0 = off. Nothing is drawn at temperature 0."""
    ras_win_max_num_repeat: int = _asked(Whole(1, 100), 1)
    """Found so often among these, a token is drawn again, as if there were no other setting."""


@dataclass(frozen=True)
class RequestOptions(SamplingDefaults):
    """The request parameters of one stream, checked."""

    seed: int | None = _asked(Whole(0, 2**63 - 1), None)
    """None: the frontend picks one and returns it in STATS."""
    drafter: str | None = _asked(Name(), None)
    verifier: str | None = _asked(Name(), None)
    """None: the server's choice, as it goes with the other."""
    tolerance: int | None = _asked(Whole(1, 16, note=" (1 = verifier match)"), None, is_drafting=True)
    top_k_verify: int | None = _asked(Whole(1, 65_536), None, is_drafting=True)
    eos_top_k: int | None = _asked(Whole(1, 65_536), None, is_drafting=True)
    bias: float | None = _asked(Real(0.0, 1.0, note=" (0 = verifier ratio)"), None, is_drafting=True)
    similarity: float | None = _asked(Real(-1.0, 1.0), None, is_drafting=True)
    draft_length: int | None = _asked(Whole(1, 64), None, is_drafting=True)
    """Tokens of a chain at most."""
    nodes: int | None = _asked(Whole(1, 4_096, note=" (the root among them)"), None, is_drafting=True)
    """Of a tree at most, root included."""
    pin_draft: bool | None = _asked(Flag(), None, is_drafting=True)
    """The draft is as large as that, whatever the load."""
    speed: float = _asked(Real(0.7, 1.4, note=" (1 = as the talker speaks)"), 1.0)
    """Of what is heard, to a thousandth."""
    max_seconds: float = _asked(Real(0.0, 3600.0, is_open=True), 3600.0)
    """Speech is cut after this many seconds (stop reason MAX_SECONDS)."""
    first_chunk_frames: int | None = _asked(Whole(1, 250), None)
    chunk_frames: int | None = _asked(Whole(1, 250), None)
    """None: as many as last `FIRST_CHUNK_MS` and `CHUNK_MS`."""
    urgency: int = _asked(Whole(LEAST_URGENT, MOST_URGENT, note=" (3 = first)"), _USUAL_URGENCY)
    """1 can wait, 3 goes first."""
    deadline_ms: int | None = _asked(Whole(1, 3_600_000), None)
    """The stream must have ended this long after it arrived."""
    health_check: bool = _asked(Flag(), False)
    """It is refused as soon as the server will drain, when other streams are still taken."""

    @property
    def speculation(self) -> dict[str, ParameterValue]:
        """The options of drafters and verifiers that the request sets."""
        given = {name: getattr(self, name) for name in SPECULATION}
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def from_parameters(
        cls, parameters: Mapping[str, ParameterValue], defaults: SamplingDefaults | None = None
    ) -> Self:
        """Reads Triton's request parameters; raises BadRequest that names what is allowed."""
        values = {
            name: _read(name, value)
            for name, value in parameters.items()
            if not name.startswith(_TRANSPORT_PREFIX)
        }
        options = cls(**{**(asdict(defaults) if defaults else {}), **values})
        repeats, window = values.get("ras_win_max_num_repeat", 0), options.ras_win_len
        if repeats > window:
            raise BadRequest(
                "ras_win_max_num_repeat", repeats, f"a whole number up to ras_win_len, which is {window}"
            )
        return options

    @classmethod
    def from_json(cls, text: str, defaults: SamplingDefaults) -> Self:
        """Reads what `request.parameters()` of the Python backend returns."""
        return cls.from_parameters(json.loads(text) if text else {}, defaults)


SETTINGS: dict[str, Setting] = {one.name: one.metadata[_SETTING] for one in fields(RequestOptions)}
"""Every request parameter of the ensemble `tts`. What goes together, `drafting/selection.py` knows."""

SPECULATION = tuple(one.name for one in fields(RequestOptions) if one.metadata[_IS_DRAFTING])
"""Options of drafters and verifiers."""


def _read(name: str, value: ParameterValue) -> Any:  # noqa: ANN401
    setting = SETTINGS.get(name)
    if setting is None:
        raise BadRequest("request parameter", name, ", ".join(sorted(SETTINGS)))
    try:
        return setting.read(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRequest(name, value, setting.allowed) from error


@dataclass(frozen=True)
class ModelConfig:
    """What one Python model is told by Triton: its folder, and `parameters` of its config.pbtxt."""

    folder: Path
    """The version folder, which holds the artifacts."""
    parameters: Mapping[str, str]
    max_batch_size: int

    @classmethod
    def from_triton(cls, args: Mapping[str, str]) -> Self:
        config = json.loads(args["model_config"])
        return cls(
            folder=Path(args["model_repository"]) / args["model_version"],
            parameters={name: entry["string_value"] for name, entry in config.get("parameters", {}).items()},
            max_batch_size=int(config.get("max_batch_size", 0)),
        )

    @property
    def may_measure(self) -> bool:
        """Whether a start may time the talker; one that joins a busy server learns nothing from it."""
        return self.parameters.get("measure_steps") != "false"

    def artifact_folder(self, model: str) -> Path:
        """The same version's folder of another model in this repository."""
        return folder_beside(self.folder, model)

    def whole(self, name: str, default: int) -> int:
        """A parameter of config.pbtxt that is a positive integer."""
        text = self.parameters.get(name, str(default))
        if not text.isdigit() or int(text) < 1:
            raise BadRequest(
                f"{self.folder.parent.name}: parameter {name}", text, "a whole number of at least 1"
            )
        return int(text)

    def real(self, name: str, default: float, setting: Real) -> float:
        """A parameter of config.pbtxt that is a number."""
        text = self.parameters.get(name, str(default))
        try:
            return setting.read(text)
        except ValueError as error:
            raise BadRequest(f"{self.folder.parent.name}: parameter {name}", text, setting.allowed) from error


_PARAMETER = re.compile(r'^parameters \{ key: "(\w+)" value \{ string_value: "(\w+)" \} \}$', re.MULTILINE)
_PARAMETER_LINE = 'parameters {{ key: "{}" value {{ string_value: "{}" }} }}'


def with_parameter(config: str, name: str, value: str) -> str:
    """The text of a config.pbtxt with a parameter's value, in its place, or at the end where it is new."""
    line = _PARAMETER_LINE.format(name, value)
    for found in _PARAMETER.finditer(config):
        if found[1] == name:
            return config[: found.start()] + line + config[found.end() :]
    return f"{config}{line}\n"


def parameters_of(model: Path) -> dict[str, str]:
    """`parameters` of a model's config.pbtxt, for those who are not told by Triton; empty without one."""
    path = model / "config.pbtxt"
    return dict(_PARAMETER.findall(path.read_text(encoding="utf-8"))) if path.exists() else {}


def folder_beside(folder: Path, model: str) -> Path:
    """The same version's folder of another model, of a model's version folder."""
    return folder.parent.parent / model / folder.name


AUTO = "auto"
"""A parameter's value that leaves the choice to the server."""

THREADS_PREFIX = "TALKAHEAD_THREADS_"
"""Set by the launcher for its children: TALKAHEAD_THREADS_TALKER=2 overrides `threads` of config.pbtxt."""


def thread_override(model: str) -> int | None:
    """The launcher's thread count for a model, if one was given."""
    text = os.environ.get(THREADS_PREFIX + model.upper(), "")
    return int(text) if text.isdigit() and int(text) > 0 else None


SOCKET_DIR = "TALKAHEAD_SOCKET_DIR"
"""Set by the launcher for its children: the folder in which the models of one server meet."""


def socket_dir() -> Path | None:
    """The folder that the launcher made, if there is a launcher."""
    text = os.environ.get(SOCKET_DIR, "")
    return Path(text) if text else None


CPU_VARIABLE = "TALKAHEAD_CPU"
"""The code path: see `cpu_path.py`."""


def cpu_setting() -> str:
    """The code path that was asked for; empty for the widest."""
    return os.environ.get(CPU_VARIABLE, "")


def compiler_setting() -> list[str]:
    """More flags for native code, as `make sanitize` gives them."""
    return shlex.split(os.environ.get("TALKAHEAD_CFLAGS", ""))


def child_environment(search: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, with `search` put in front of the variables that list folders."""
    environment = dict(os.environ)
    for name, folders in search.items():
        environment[name] = ":".join(filter(None, (folders, environment.get(name))))
    return environment
