"""`/v1/audio/voices`: the servers' own, and recordings that callers leave to be spoken like."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message
from talkahead_client import Reference

from talkahead_gateway.api_keys import authorization
from talkahead_gateway.house import House, Stage
from talkahead_gateway.recording import FIELD, read_recording
from talkahead_gateway.refusal import Refusal, one_of
from talkahead_gateway.request_body import BodyLimit, read_body
from talkahead_gateway.speech_request import MODELS
from talkahead_gateway.stored_voices import StoredVoice
from talkahead_gateway.voices import OPENAI_VOICES, choose_voice

RECORDING_BYTES = 10 << 20
"""As OpenAI's interface has it."""
MAX_NAME = 64
_TRIAL = "Yes."
"""What a server says with a recording before it is kept: it may well refuse to be like it."""
_FIELDS = (FIELD, "name", "ref_text", "consent", "model", "type")
_MODEL = MODELS[0]


@dataclass(frozen=True)
class _Form:
    """What is left with a recording."""

    name: str
    recording: bytes
    said: str


class VoicesDoor:
    """Its endpoints.

    Args:
        house: where voices are kept.
        request_s: from a request's head to the end of its body.
    """

    def __init__(self, house: House, request_s: float) -> None:
        self._house = house
        self._limit = BodyLimit(RECORDING_BYTES, request_s)

    async def show(self, request: Request) -> Response:
        offered = await self._house.servers.voices()
        aliases = {alias: choose_voice(alias, offered) for alias in OPENAI_VOICES if offered}
        stage = self._house.stage(authorization(request.headers))
        own = [voice.described() for voice in self._house.voices.of(stage.caller)]
        return JSONResponse({"voices": list(offered), "aliases": aliases, "stored": own})

    async def keep(self, request: Request) -> Response:
        stage = self._house.stage(authorization(request.headers))
        with self._house.streams.one():
            form = await _read_form(request, await read_body(request, self._limit))
            await self._check_name(stage, form.name)
            rate_hz = await self._house.servers.sample_rate_hz()
            audio = await asyncio.to_thread(read_recording, form.recording, rate_hz)
            reference = Reference(audio, form.said)
            with self._house.keys.stream(stage.caller):
                async with await self._house.servers.speak(_TRIAL, reference, {}):
                    pass
            voice = StoredVoice.of(form.name, form.recording, _MODEL, reference)
            self._house.voices.add(stage.caller, voice)
        return JSONResponse(voice.described())

    async def forget(self, request: Request) -> Response:
        stage = self._house.stage(authorization(request.headers))
        voice = self._house.voices.remove(stage.caller, request.path_params["voice"])
        return JSONResponse({"id": voice.id, "object": "audio.voice", "deleted": True})

    async def _check_name(self, stage: Stage, name: str) -> None:
        if name in (*await self._house.servers.voices(), *OPENAI_VOICES):
            raise Refusal.of_field("name", name, "one that no voice of the server has")
        self._house.voices.check(stage.caller, name)


async def _read_form(request: Request, body: bytes) -> _Form:
    """Raises Refusal for what is none, or names what is not known here."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    form = Request(request.scope, receive).form(max_files=1, max_fields=len(_FIELDS))
    try:
        async with form as given:
            return await _read_fields(given)
    except HTTPException as error:
        raise Refusal(400, f"body: {error.detail}; allowed: multipart/form-data") from None


async def _read_fields(given: FormData) -> _Form:
    for field in given:
        if field not in _FIELDS:
            raise Refusal.of_field("field", field, one_of(_FIELDS))
    for field, allowed in (("model", MODELS), ("type", ("audio_sample",))):
        value = given.get(field, allowed[0])
        if value not in allowed:
            raise Refusal.of_field(field, value, one_of(allowed))
    sample = given.get(FIELD)
    if not isinstance(sample, UploadFile):
        raise Refusal.of_field(FIELD, sample, "a file, in multipart/form-data")
    return _Form(_text(given, "name", MAX_NAME), await sample.read(), _text(given, "ref_text"))


def _text(given: FormData, field: str, most: int | None = None) -> str:
    value = given.get(field)
    bound = "" if most is None else f", up to {most} characters"
    if not isinstance(value, str) or not value.strip() or (most is not None and len(value) > most):
        raise Refusal.of_field(field, value, f"a string that is not empty{bound}")
    return value
