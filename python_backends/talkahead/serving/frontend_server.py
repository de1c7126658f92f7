"""`frontend`: refuses bad requests with a sentence, and sends the text on segment by segment."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic_ns, perf_counter
from typing import TypeVar

import numpy as np

from talkahead.config import ModelConfig, RequestOptions
from talkahead.drafting.offer import read_offer
from talkahead.drafting.selection import select
from talkahead.errors import BadRequest, Code, TalkaheadError, answer_to_check
from talkahead.families.contracts import NO_WORDS, Segment, Units, Words
from talkahead.families.registry import load_family
from talkahead.generation_config import read_sampling
from talkahead.manifest import Manifest
from talkahead.serving import reference_reader
from talkahead.serving.fair_rounds import FairRounds
from talkahead.serving.reference_reader import Reference, ReferenceReader
from talkahead.serving.stream_pace import StreamPace, StreamPaces
from talkahead.serving.triton_api import InferenceRequest, ResponseSender, TritonApi, Wire
from talkahead.serving.voices import Voices
from talkahead.speech_format import SpeechFormat
from talkahead.telemetry import FrontendTelemetry
from talkahead.transport.receivers import ProgressReceiver
from talkahead.transport.rendezvous import draining_flag, leaving_flag, rendezvous_folder
from talkahead.transport.wait_notice import Doorkeeper
from talkahead.types import SegmentHeader

_STREAM_BITS = 63
_SEED_BITS = 48
_WARM_UP_TEXT = "Dr. Smith paid $45.50 for 3 kg of apples on March 3rd, 1999, at 10:30. Didn't he? Xylquor!"

Item = TypeVar("Item")


@dataclass(frozen=True)
class Utterance:
    """A checked request and the way back."""

    text: str
    voice: int
    seed: int
    stream: int
    reference: Reference | None
    frontend: int
    asked_us: int
    sender: ResponseSender
    pace: StreamPace

    def header(
        self, segment: int, is_last: bool, start: int, end: int, pause_frames: int = 0, recall: int = 0
    ) -> SegmentHeader:
        return SegmentHeader(
            stream=self.stream,
            segment=segment,
            last=int(is_last),
            char_start=start,
            char_end=end,
            seed=self.seed,
            pause_frames=pause_frames,
            reference=self.reference.key if self.reference else 0,
            frontend=self.frontend,
            voice=self.voice,
            asked_us=self.asked_us,
            recall=recall,
        )


class FrontendServer:
    """The serve loop of `frontend`."""

    def __init__(self, api: TritonApi, config: ModelConfig) -> None:
        self._wire = Wire(api)
        self._voices = Voices.of(config)
        vocoder = config.artifact_folder("vocoder")
        self._speech = SpeechFormat.read(vocoder)
        family = load_family(self._speech.family)
        self._offer = read_offer(config.artifact_folder("talker"))
        self._sampling = read_sampling(config.artifact_folder("talker"))
        self._no_units = np.zeros((1, family.unit_columns), np.int32)
        self._text = family.frontend(config.folder, self._speech)
        deque(self._text.segments(_WARM_UP_TEXT, None), maxlen=0)
        self._references = ReferenceReader(self._speech, self._text, Manifest.read(vocoder).version)
        socket_dir = rendezvous_folder()
        self._leaving, self._draining = leaving_flag(socket_dir), draining_flag(socket_dir)
        self._doorkeeper = Doorkeeper(socket_dir)
        self._telemetry = FrontendTelemetry(api)
        self._rounds = FairRounds("frontend-text")
        self._paces = StreamPaces()
        self._progress = ProgressReceiver()
        self._progress.start(self._paces.update)

    def execute(self, requests: Sequence[InferenceRequest]) -> None:
        for request in requests:
            sender = request.get_response_sender()
            try:
                utterance = self._read(request, sender)
            except Exception as error:
                self._refuse("a request", sender, error)
            else:
                self._rounds.add(self._speak(utterance))

    def close(self) -> None:
        self._progress.close()
        self._rounds.close()
        self._telemetry.close()

    def _refuse(self, what: str, sender: ResponseSender, error: Exception) -> None:
        self._telemetry.refused(error)
        self._wire.refuse(what, sender, error)

    def _read(self, request: InferenceRequest, sender: ResponseSender) -> Utterance:
        asked_us = monotonic_ns() // 1_000
        options = RequestOptions.from_json(request.parameters(), self._sampling)
        if self._draining.exists() or (options.health_check and self._leaving.exists()):
            raise TalkaheadError("the server is shutting down; ask another", Code.UNAVAILABLE)
        try:
            utterance = self._utterance(request, options, sender, asked_us)
        except TalkaheadError as error:
            if options.health_check:
                raise answer_to_check(error) from error
            raise
        self._doorkeeper.let_in(options.urgency)
        return utterance

    def _utterance(
        self, request: InferenceRequest, options: RequestOptions, sender: ResponseSender, asked_us: int
    ) -> Utterance:
        if wait := self._doorkeeper.long_wait(options.urgency):
            raise wait.error
        select(options, self._offer)
        self._check_speed(options.speed)
        voice = self._wire.text(request, "VOICE")
        reference = self._reference(request, voice)
        stream = secrets.randbits(_STREAM_BITS)
        return Utterance(
            # What cannot be spoken is refused by `iter_segments`, before the first segment.
            text=self._wire.text(request, "TEXT") or "",
            voice=self._voices.of_a_reference if reference else self._voices.id_of(voice),
            seed=secrets.randbits(_SEED_BITS) if options.seed is None else options.seed,
            stream=stream,
            reference=reference,
            frontend=self._progress.address,
            asked_us=asked_us,
            sender=sender,
            pace=self._paces.open(stream),
        )

    def _check_speed(self, speed: float) -> None:
        if speed != 1 and not self._speech.is_elastic:
            raise BadRequest("speed", speed, f"1, for the codec of {self._speech.family} has one pace alone")

    def _reference(self, request: InferenceRequest, voice: str | None) -> Reference | None:
        audio = self._wire.optional(request, reference_reader.AUDIO)
        text = self._wire.text(request, reference_reader.TEXT)
        if audio is None and text is None:
            return None
        if voice is not None:
            raise BadRequest("VOICE", voice, "nothing beside a reference, which is a voice of its own")
        return self._references.read(audio, text)

    def _speak(self, utterance: Utterance) -> Iterator[StreamPace]:
        """Sends one segment a step. Nothing has left before the first, which may still refuse the text."""
        began = perf_counter()
        sent = 0
        try:
            voice, reference = utterance.voice, utterance.reference
            said = reference.said if reference else self._voices.said(voice)
            segments = self._text.segments(utterance.text, said, is_fixed=self._voices.is_fixed(voice))
            for segment, is_last in _with_last(segments):
                if utterance.pace.is_over:
                    self._close_early(utterance, sent)
                    break
                self._send(utterance, segment, sent, is_last)
                if sent == 0:
                    self._telemetry.stage("frontend", perf_counter() - began)
                sent += 1
                if not is_last:
                    utterance.pace.count()
                    yield utterance.pace
            if sent == 0:
                raise BadRequest("TEXT", utterance.text, "at least one word that can be spoken")
            self._wire.close(f"the end of stream {utterance.stream}", utterance.sender)
        except Exception as error:
            if sent == 0:
                self._refuse(f"stream {utterance.stream}", utterance.sender, error)
            else:
                self._break_off(utterance, sent, error)
        finally:
            self._paces.close(utterance.stream)

    def _send(self, utterance: Utterance, segment: Segment, index: int, is_last: bool) -> None:
        pause = self._speech.frames(segment.pause_s)
        place = segment.char_start, segment.char_end
        header = utterance.header(index, is_last, *place, pause, segment.recall)
        utterance.sender.send(self._response(utterance, segment.units, header, segment.words))

    def _response(
        self, utterance: Utterance, units: Units, header: SegmentHeader, words: Words = NO_WORDS
    ) -> object:
        """A reference's audio goes with the first segment alone."""
        reference, audio = utterance.reference, np.zeros(0, np.float32)
        if reference is not None and header.segment == 0:
            audio = reference.audio
        return self._wire.response(
            SYMBOLS=units,
            REFERENCE=audio,
            SEGMENT=header.to_array(),
            WORDS=words,
        )

    def _close_early(self, utterance: Utterance, sent: int) -> None:
        """The talker is done with the stream: one last segment, not to be spoken, for those who count."""
        end = len(utterance.text)
        header = utterance.header(sent, True, end, end)
        utterance.sender.send(self._response(utterance, self._no_units, header))

    def _break_off(self, utterance: Utterance, sent: int, error: Exception) -> None:
        """Segments are on their way, and an error from here would leave them open in Triton for ever.

        The talker ends the stream instead: on a segment whose units no encoder has.
        """
        what = f"segment {sent} of stream {utterance.stream}"
        self._wire.note(what, error)
        end = len(utterance.text)
        header = utterance.header(sent, True, end, end)
        nonsense = self._no_units - 1
        self._wire.end(what, utterance.sender, lambda: self._response(utterance, nonsense, header))


def _with_last(items: Iterable[Item]) -> Iterator[tuple[Item, bool]]:
    """Each item, and whether it is the last; one item ahead of the consumer."""
    iterator = iter(items)
    for current in iterator:
        for following in iterator:
            yield current, False
            current = following
        yield current, True
