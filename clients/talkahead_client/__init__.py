"""Streaming client of Talkahead: `Client` for threads, `AsyncClient` for asyncio."""

from talkahead_client.aio import AsyncClient, AsyncSpeech
from talkahead_client.client import Client, Speech
from talkahead_client.control import ServerLoad
from talkahead_client.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    ServerBusy,
    ServerFailure,
    ServerUnavailable,
    SpeechError,
    StreamBroken,
)
from talkahead_client.figures import Figures, Listener
from talkahead_client.protocol import Spoken, Stats, StopReason
from talkahead_client.reception import AudioChunk, Word
from talkahead_client.reference import Reference
from talkahead_client.tls import tls_credentials

__all__ = [
    "AsyncClient",
    "AsyncSpeech",
    "AudioChunk",
    "Cancelled",
    "Client",
    "DeadlineExceeded",
    "Figures",
    "InvalidRequest",
    "Listener",
    "NotFound",
    "Reference",
    "ServerBusy",
    "ServerFailure",
    "ServerLoad",
    "ServerUnavailable",
    "Speech",
    "SpeechError",
    "Spoken",
    "Stats",
    "StopReason",
    "StreamBroken",
    "Word",
    "tls_credentials",
]
