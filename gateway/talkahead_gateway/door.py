"""The doors as one: their routes, what stands before all of them, and what they share."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field

import grpc
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from talkahead_gateway.api_keys import ApiKeys, authorization
from talkahead_gateway.house import House
from talkahead_gateway.meter import Meter, Metered
from talkahead_gateway.open_streams import OpenStreams
from talkahead_gateway.refusal import Refusal, one_of
from talkahead_gateway.riva_door import RivaDoor
from talkahead_gateway.servers import Servers
from talkahead_gateway.speech_door import SpeechDoor, SpeechLimits
from talkahead_gateway.speech_request import MODELS
from talkahead_gateway.stored_voices import DEFAULT_PER_KEY, StoredVoices
from talkahead_gateway.voices_door import VoicesDoor
from talkahead_gateway.web_page import is_for_people, page, page_routes
from talkahead_gateway.writing_door import WritingDoor

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class DoorOptions:
    """What an operator chooses."""

    servers: tuple[str, ...]
    """Addresses of gRPC endpoints, `host:port`."""
    credentials: grpc.ChannelCredentials | None = None
    """Where these have TLS."""
    api_keys: tuple[str, ...] = ()
    """None = everybody may ask."""
    streams_per_key: int | None = None
    characters_per_key: int | None = None
    """In a minute."""
    voices_per_key: int = DEFAULT_PER_KEY
    """Recordings that are kept."""
    allow_origins: tuple[str, ...] = ()
    """Whose pages may ask, as browsers name them; `*` = all."""
    limits: SpeechLimits = field(default_factory=SpeechLimits)
    language: str = "en-US"
    """That the servers speak, as clients of Riva ask for it."""


class Door:
    """The gateway behind HTTP and gRPC; made where the event loop runs.

    Attributes:
        app: the ASGI application.
        riva: the gRPC service.
        streams: what is being spoken; drain it before the end.
    """

    def __init__(self, options: DoorOptions) -> None:
        self.streams = OpenStreams()
        self._servers = Servers(options.servers, options.credentials)
        self._keys = ApiKeys(options.api_keys, options.streams_per_key, options.characters_per_key)
        voices = StoredVoices(options.voices_per_key)
        self._house = House(self._servers, self.streams, self._keys, voices)
        self._meter = Meter(self.streams)
        self._opened_s = int(time.time())
        self.riva = RivaDoor(self._house, self._meter, options.limits, options.language)
        self.app = Starlette(
            routes=self._routes(options.limits),
            middleware=self._middleware(options.allow_origins),
            exception_handlers={Refusal: _refused, HTTPException: _not_here, Exception: _failed},
            lifespan=self._lifespan,
        )

    def _routes(self, limits: SpeechLimits) -> list[BaseRoute]:
        speech = SpeechDoor(self._house, limits)
        writing = WritingDoor(self._house, limits.reader_s)
        voices = VoicesDoor(self._house, limits.request_s)
        return [
            Route("/", self._greet),
            *page_routes(),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
            Route("/v1/audio/speech", speech, methods=["POST"]),
            Route("/v1/audio/voices", voices.show),
            Route("/v1/audio/voices", voices.keep, methods=["POST"]),
            Route("/v1/audio/voices/{voice}", voices.forget, methods=["DELETE"]),
            WebSocketRoute("/v1/text-to-speech/{voice}/stream-input", writing.hear_one_turn),
            WebSocketRoute("/v1/text-to-speech/{voice}/multi-stream-input", writing.hear_many_turns),
            Route("/v1/models", self._models),
            Route("/v1/models/{model}", self._model),
        ]

    def _middleware(self, allow_origins: tuple[str, ...]) -> list[Middleware]:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=allow_origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("Authorization", "Content-Type"),
        )
        gate = Middleware(_Gate, streams=self.streams, keys=self._keys, allow_origins=allow_origins)
        return [Middleware(Metered, meter=self._meter), *([cors] if allow_origins else []), gate]

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self._servers.close()

    async def _greet(self, request: Request) -> Response:
        if is_for_people(request):
            return page()
        return JSONResponse(
            {
                "name": "talkahead",
                "about": "streaming text-to-speech, as OpenAI's interface has it, or ElevenLabs'",
                "speech": "POST /v1/audio/speech",
                "text that is still being written": "ws /v1/text-to-speech/{voice}/multi-stream-input",
                "more": ["/v1/models", "/v1/audio/voices", "/health", "/metrics"],
            }
        )

    async def _health(self, request: Request) -> Response:
        """200 where a server speaks, and this door lets in."""
        self.streams.check()
        loads = await self._servers.loads()
        described = {
            address: {
                "active": load.active,
                "queued": load.queued,
                "predicted_first_chunk_ms": load.predicted_first_chunk_ms,
            }
            if load
            else None
            for address, load in loads.items()
        }
        is_ready = any(load is not None for load in loads.values())
        status = "ready" if is_ready else "no server speaks"
        return JSONResponse({"status": status, "servers": described}, 200 if is_ready else 503)

    async def _metrics(self, request: Request) -> Response:
        return Response(self._meter.page(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [asdict(self._described(name)) for name in MODELS]})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name not in MODELS:
            message = f"model: {name!r} is not here; allowed: {one_of(MODELS)}"
            raise Refusal(404, message, param="model", code="model_not_found")
        return JSONResponse(asdict(self._described(name)))

    def _described(self, name: str) -> _Model:
        return _Model(id=name, created=self._opened_s)


@dataclass(frozen=True)
class _Model:
    """As OpenAI's interface describes one."""

    id: str
    created: int
    """Seconds since 1970; since when this process has offered it."""
    object: str = "model"
    owned_by: str = "talkahead"


class _Gate:
    """An ASGI middleware: what has a version in its path needs a key, and is closed once the door drains."""

    def __init__(
        self, app: ASGIApp, streams: OpenStreams, keys: ApiKeys, allow_origins: tuple[str, ...]
    ) -> None:
        self._app = app
        self._streams = streams
        self._keys = keys
        self._allow_origins = allow_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"].startswith("/v1/"):
            try:
                self._check(HTTPConnection(scope))
            except Refusal as refusal:
                await refusal.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, connection: HTTPConnection) -> None:
        self._streams.check()
        self._keys.caller_of(authorization(connection.headers))
        if connection.scope["type"] == "websocket":
            # Browsers ask no permission in front of a WebSocket, as they do by CORS for all else.
            self._check_origin(connection.headers)

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        own = {f"{scheme}://{headers.get('host')}" for scheme in ("http", "https")}
        if origin is not None and not {origin, "*"} & {*self._allow_origins, *own}:
            raise Refusal(403, f"Origin: pages of {origin} are not let in; an operator may (--allow-origin)")


async def _refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    return refusal.response()


async def _not_here(request: Request, error: Exception) -> Response:
    """No such path, or not with this method."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}"
    response = Refusal(error.status_code, f"{what}: {error.detail}; GET / says what is here").response()
    response.headers.update(error.headers or {})
    return response


async def _failed(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return Refusal.of_own_failure().response()
