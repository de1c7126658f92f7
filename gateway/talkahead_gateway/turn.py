"""One speaker's turn: what is written is spoken clause by clause, while more is being written."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

from talkahead_client import SpeechError, Word
from talkahead_client.protocol import ParameterValue

from talkahead_gateway.alignment import Alignment
from talkahead_gateway.clause_cutter import ClauseCutter, says_something
from talkahead_gateway.encoding import AsyncEncoder
from talkahead_gateway.heard_text import HeardText
from talkahead_gateway.house import Stage
from talkahead_gateway.manner import Manner
from talkahead_gateway.playback import Playback, after_silence
from talkahead_gateway.refusal import Refusal
from talkahead_gateway.written_message import MAX_CHARACTERS

_LOG = logging.getLogger(__name__)

Message = dict[str, Any]


class ListenerGone(Exception):
    """Nobody is there any more for whom to speak."""


class Flush(Enum):
    """What a message asked for."""

    NONE = auto()
    WITH_TEXT = auto()
    ALONE = auto()


class Turn:
    """Speaks what is written, each clause as soon as it is sure to be one, and says when all has been said.

    Clauses are utterances of their own, one after the other; between them lies what a reader pauses, unless
    their listener has waited as long anyway. From the first clause to the end, a turn counts as an open
    stream, and as one of its key's.

    Args:
        manner: how it is spoken.
        speed: over the server's usual one; None = that.
        stage: where.
        send: takes a message for the client, and returns once that is on its way.
    """

    def __init__(
        self, manner: Manner, speed: float | None, stage: Stage, send: Callable[[Message], Awaitable[None]]
    ) -> None:
        self._manner = manner
        self._parameters: dict[str, ParameterValue] = dict(manner.parameters)
        if speed is not None:
            self._parameters["speed"] = speed
        self._stage = stage
        self._send = send
        self._encoder = AsyncEncoder(manner.output.audio_format, manner.output.rate_hz)
        self._cutter = ClauseCutter()
        self._flush = Flush.NONE
        self._clauses: asyncio.Queue[str | None] = asyncio.Queue()
        self._waiting_characters = 0
        self._playback = Playback()
        self._heard_text = HeardText()
        self._is_in_clause = False
        self.refusal: Refusal | None = None
        """Why it was over before all was said."""
        self._task = asyncio.create_task(self._run())

    @property
    def is_over(self) -> bool:
        """Whether the client has been told that it is."""
        return self._task.done()

    @property
    def is_speaking(self) -> bool:
        return not self.is_over and (self._is_in_clause or not self._clauses.empty())

    @property
    def is_complete(self) -> bool:
        """Whether closing it now means that all was written, rather than that it is interrupted.

        So it is after a flush alone, with which Pipecat and LiveKit end a turn; and after text with a flush,
        as LiveKit sends each sentence, while nothing has been heard that could be interrupted.
        """
        is_unheard = not self._playback.has_begun
        return self._flush is Flush.ALONE or (self._flush is Flush.WITH_TEXT and is_unheard)

    @property
    def is_heard_out(self) -> bool:
        """Whether it is over, for who plays it as well."""
        return self.is_over and not self._playback.left_s

    @property
    def heard(self) -> Message:
        """How far somebody has heard it who plays it as it arrives."""
        heard = self._heard_text.at(self._playback.now_s)
        audio_ms = round(1e3 * self._playback.heard_s)
        return {"text": heard.text, "lastWord": heard.word, "audioMs": audio_ms}

    def write(self, text: str, *, flush: bool) -> None:
        """More text; raises Refusal where too much waits already."""
        if not (text or flush):
            return
        self._flush = Flush.NONE if not flush else Flush.WITH_TEXT if text else Flush.ALONE
        clauses = self._cutter.add(text)
        if flush or self._manner.is_whole:
            clauses.append(self._cutter.flush())
        for clause in filter(says_something, clauses):
            self._waiting_characters += len(clause)
            self._clauses.put_nowait(clause)
        if self._waiting_characters > MAX_CHARACTERS:
            raise Refusal(400, f"text: over {MAX_CHARACTERS:,} characters wait to be spoken", param="text")

    def end(self) -> None:
        """Nothing more will be written: speaks what there is, and is over."""
        self.write("", flush=True)
        self._clauses.put_nowait(None)

    def stop(self) -> None:
        """Sends nothing more from here on; the server is told to end what it speaks."""
        self._task.cancel()

    async def join(self) -> None:
        """Returns once it is over, on the server too."""
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            self.refusal = await self._speak_or_refuse()
            if self.refusal is not None:
                await self._send(error_message(self.refusal))
            await self._send(FINAL)
        except ListenerGone:
            pass

    async def _speak_or_refuse(self) -> Refusal | None:
        try:
            await self._speak_all()
        except ListenerGone:
            raise
        except (Refusal, SpeechError) as error:
            refusal = error if isinstance(error, Refusal) else Refusal.of_error(error)
            _LOG.warning("a turn was cut off: %s", refusal)
            return refusal
        except Exception:
            _LOG.exception("a turn was cut off by a failure of the gateway")
            return Refusal.of_own_failure()
        return None

    async def _speak_all(self) -> None:
        clause = await self._clauses.get()
        if clause is None:
            return
        with self._stage.stream():
            while clause is not None:
                self._waiting_characters -= len(clause)
                self._is_in_clause = True
                await self._speak(clause)
                self._is_in_clause = False
                clause = await self._clauses.get()
            await self._send_audio(await self._encoder.finish())

    async def _speak(self, clause: str) -> None:
        speaking = self._stage.speak(clause.strip(), self._manner.voice, self._parameters)
        async with await speaking as utterance:
            silence_s, speech_s = 0.0, 0.0
            words: list[Word] = []
            self._heard_text.begin(clause)
            async for chunk in utterance:
                words.extend(chunk.words)
                sent = chunk
                if chunk.index == 0:
                    silence_s = self._playback.silence_s()
                    sent = after_silence(chunk, silence_s)
                begins_s = self._playback.play(sent.duration_s) + sent.duration_s - chunk.duration_s
                self._heard_text.add(chunk.words, begins_s - speech_s)
                speech_s += chunk.duration_s
                audio = await self._encoder.encode(sent)
                aligned = Alignment.of(clause, words, silence_s, speech_s) if chunk.is_last else None
                await self._send_audio(audio, aligned)
        self._playback.pause_after(clause)

    async def _send_audio(self, audio: bytes, aligned: Alignment | None = None) -> None:
        """What a codec keeps back is no message.

        Pipecat's service reads `alignment`, and adds up the times of messages; LiveKit's plugin reads
        `normalizedAlignment`, and takes its times for the turn's.
        """
        told: Message = {"audio": base64.b64encode(audio).decode("ascii")}
        if aligned is not None:
            told["alignment"] = aligned.times()
            told["normalizedAlignment"] = aligned.times(self._playback.sent_s - aligned.seconds)
        if audio or aligned is not None:
            await self._send(told)


FINAL: Message = {"isFinal": True}


def error_message(refusal: Refusal) -> Message:
    """LiveKit's plugin reads `error`, ElevenLabs' package `message`."""
    return {"error": str(refusal), "message": str(refusal), "code": refusal.status}
