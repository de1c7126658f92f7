"""The four models joined as `tts` joins them, in one process and without Triton."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import numpy as np
from fake_backend import FakeBackend, InferenceResponse, Request, string
from talkahead.config import ModelConfig
from talkahead.serving.encoder_server import EncoderServer
from talkahead.serving.frontend_server import FrontendServer
from talkahead.serving.talker_server import TalkerServer
from talkahead.serving.vocoder_server import VocoderServer

LIMIT_S = 30.0


class Spoken:
    """What a client gets of one request, and when nothing of it is open any more."""

    def __init__(self) -> None:
        self.chunks: list[dict[str, np.ndarray]] = []
        self.errors: list[str] = []
        self.num_segments = 0
        self.begun = threading.Event()
        self._open = 0
        self._changed = threading.Condition()

    def enter(self) -> None:
        with self._changed:
            self._open += 1

    def leave(self) -> None:
        with self._changed:
            self._open -= 1
            self._changed.notify_all()

    def wait(self) -> Spoken:
        """Until every model has sent its final response for every part of the request."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._open == 0, LIMIT_S), f"{self._open} parts are open"
        return self

    @property
    def audio(self) -> np.ndarray:
        return np.concatenate([chunk["AUDIO"] for chunk in self.chunks])

    @property
    def lasts(self) -> list[bool]:
        return [bool(chunk["IS_LAST"][0]) for chunk in self.chunks]


class _Sender:
    """Hands each response to the next model."""

    def __init__(self, spoken: Spoken, hand_on: Callable[[dict[str, np.ndarray]], None]) -> None:
        self._spoken, self._hand_on = spoken, hand_on
        spoken.enter()

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        if response is not None and response.error is not None:
            self._spoken.errors.append(str(response.error))
        elif response is not None:
            self._hand_on({name: values[0] for name, values in response.tensors.items()})
        if flags:
            self._spoken.leave()


class FakeEnsemble:
    """Takes requests as the ensemble does."""

    def __init__(self, backend: FakeBackend, config_of: Callable[..., ModelConfig]) -> None:
        self._vocoder = VocoderServer(backend, config_of("vocoder"))
        self._talker = TalkerServer(backend, config_of("talker", slots="4"))
        self._encoder = EncoderServer(backend, config_of("encoder"))
        self._frontend = FrontendServer(backend, config_of("frontend"))

    def speak(
        self, text: str, *, id: str = "", options: dict[str, object] | None = None, **inputs: np.ndarray
    ) -> Spoken:
        spoken, parameters = Spoken(), json.dumps(options or {})

        def asked(
            tensors: dict[str, np.ndarray], hand_on: Callable[[dict[str, np.ndarray]], None]
        ) -> Request:
            return Request(tensors, parameters, id, _Sender(spoken, hand_on))  # type: ignore[arg-type]

        def hear(chunk: dict[str, np.ndarray]) -> None:
            spoken.chunks.append(chunk)
            spoken.begun.set()

        def vocode(window: dict[str, np.ndarray]) -> None:
            self._vocoder.execute([asked(window, hear)])

        def talk(prompt: dict[str, np.ndarray]) -> None:
            self._talker.execute([asked(prompt, vocode)])

        def encode(segment: dict[str, np.ndarray]) -> None:
            spoken.num_segments += 1
            self._encoder.execute([asked(segment, talk)])

        self._frontend.execute([asked({"TEXT": string(text), **inputs}, encode)])
        return spoken

    def close(self) -> None:
        for model in (self._frontend, self._encoder, self._talker, self._vocoder):
            model.close()
