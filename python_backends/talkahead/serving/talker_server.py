"""`talker`: hands each segment to the engine, and the engine's windows back to Triton."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np

from talkahead.backbone.backbone import Backbone
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import AUTO, ModelConfig, Real, RequestOptions, SamplingDefaults
from talkahead.engine.decode_step import DecodeStep
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.method_book import MethodBook
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_engine import TalkerEngine
from talkahead.errors import TalkaheadError
from talkahead.families.registry import load_family
from talkahead.generation_config import read_sampling
from talkahead.serving.default_pair import default_pair
from talkahead.serving.forecasting import forecast_of
from talkahead.serving.model_device import claim_talkers_device
from talkahead.serving.startup_notes import note
from talkahead.serving.talker_parts import TalkerParts
from talkahead.serving.triton_api import InferenceRequest, ResponseSender, TritonApi, Wire
from talkahead.speculation.pairs import PLAIN
from talkahead.speech_format import SpeechFormat
from talkahead.telemetry import TalkerTelemetry
from talkahead.transport.receivers import AcknowledgementReceiver
from talkahead.transport.senders import ProgressSender
from talkahead.transport.wait_notice import WaitNotice
from talkahead.types import SegmentHeader, StepWay

_MAX_WAIT_MS = 1_000.0
"""Of a conversation, after which nobody listens any more."""
_HOUR_MS = 3.6e6
_MIN_PACE = 0.1
"""Low, for listeners of files can wait, and a machine is busy with other things now and then."""
CPU_ROWS = 16
"""Of a step, where `max_step_rows` is `auto`."""
_WARM_UP_SYMBOLS = 40
_WARM_UP_SECONDS = 0.5


@dataclass(frozen=True)
class SenderOutlet:
    """One segment's response sender, as the engine sees it. Its end is told, whatever Triton takes of it."""

    wire: Wire
    sender: ResponseSender
    name: str
    """The request's id, for the log."""

    def send(self, window: Window) -> None:
        response = self.wire.response(
            FRAMES=window.frames,
            WINDOW=window.header.to_array(),
            STATS=window.stats.to_array(),
            WORDS=window.words,
        )
        self.sender.send(response)

    def close(self) -> None:
        self.wire.close(f"the end of a segment of {self.name!r}", self.sender)

    def fail(self, error: TalkaheadError) -> None:
        self.wire.refuse(f"the error of {self.name!r}", self.sender, error)


class TalkerServer:
    """The serve loop of `talker`."""

    def __init__(self, api: TritonApi, config: ModelConfig) -> None:
        self._wire = Wire(api)
        device, threads = claim_talkers_device(config)
        speech = SpeechFormat.read(config.artifact_folder("vocoder"))
        tokens = load_family(speech.family).token_map(speech)
        parts = TalkerParts.load(config, speech, tokens, device, threads)
        backbone, offer = parts.backbone, parts.methods.offer
        self._sampling = read_sampling(config.folder)
        forecast = forecast_of(parts, config)
        pair = default_pair(config, offer, forecast)
        self._methods = parts.methods.serving(forecast, pair)
        self._telemetry = TalkerTelemetry(api)
        self._telemetry.drafting(pair.drafter, pair.verifier, forecast.costs.measured if forecast else ())
        limits = _limits(config, backbone, EngineConfig(speech=speech, tokens=tokens, rows=parts.rows))
        _record(parts.step, self._methods, self._sampling)
        _warm_up(parts, limits, self._methods)
        self._count_ways(parts)
        # The engine wants the socket's address, so the socket is bound first and read afterwards.
        self._receiver = AcknowledgementReceiver()
        self._progress = ProgressSender()
        self._notice = WaitNotice()
        self._engine = TalkerEngine(
            backbone,
            limits,
            address=self._receiver.address,
            telemetry=self._telemetry,
            report_progress=self._progress.send,
            tell_waits=self._notice.tell,
            log=api.Logger.log_error,
            step=parts.step,
        )
        self._receiver.start(self._engine)

    def _count_ways(self, parts: TalkerParts) -> None:
        """Steps of a talker whose device records, by how they are asked for."""
        if not isinstance(parts.backbone, SlotDecoder) or parts.backbone.graphs is None:
            return
        tell = self._telemetry.steps_by_way()
        parts.backbone.graphs.tell = lambda replayed: tell(StepWay.FORWARD if replayed else StepWay.EAGER)
        if parts.step.graphs is not None:
            parts.step.graphs.tell = lambda: tell(StepWay.STEP)

    def execute(self, requests: Sequence[InferenceRequest]) -> None:
        for request in requests:
            outlet = SenderOutlet(self._wire, request.get_response_sender(), request.request_id())
            try:
                segment = self._read(request, outlet)
            except Exception as error:
                self._wire.refuse(f"a segment of {outlet.name!r}", outlet.sender, error)
            else:
                self._engine.submit(segment)

    def close(self) -> None:
        self._engine.close()
        self._receiver.close()
        self._progress.close()
        self._notice.close()
        self._telemetry.close()

    def _read(self, request: InferenceRequest, outlet: SenderOutlet) -> SegmentRequest:
        options = RequestOptions.from_json(request.parameters(), self._sampling)
        return SegmentRequest(
            header=SegmentHeader.from_array(self._wire.array(request, "SEGMENT")),
            prompt=self._wire.array(request, "PROMPT").astype(np.float32),
            options=options,
            request_id=outlet.name,
            outlet=outlet,
            method=self._methods.of(options),
            history=self._wire.array(request, "HISTORY").astype(np.int64),
            words=self._wire.array(request, "WORDS"),
        )


class _WarmUpOutlet:
    """Drops its windows and remembers the end."""

    def __init__(self) -> None:
        self.ended: Future[None] = Future()

    def send(self, window: Window) -> None:
        return None

    def close(self) -> None:
        self.ended.set_result(None)

    def fail(self, error: TalkaheadError) -> None:
        self.ended.set_exception(error)


def _limits(config: ModelConfig, backbone: Backbone, default: EngineConfig) -> EngineConfig:
    """As config.pbtxt has them; 0 switches a wait, a lead or a pace off."""
    nobody_refused = " (0 = nobody is refused for it)"
    max_wait = Real(0.0, _HOUR_MS, note=nobody_refused)
    max_lead = Real(0.0, _HOUR_MS, note=" (0 = nobody steps aside)")
    lead_ms = config.real("max_lead_ms", 1e3 * default.max_lead_s, max_lead)
    max_prefill = Real(0.0, _HOUR_MS, note=" (0 = prompts are read at once)")
    prefill_ms = config.real("max_prefill_ms", 1e3 * default.max_prefill_s, max_prefill)
    return replace(
        default,
        max_pending=config.whole("max_pending", default.max_pending),
        max_wait_s=1e-3 * config.real("max_wait_ms", _MAX_WAIT_MS, max_wait),
        max_lead_s=1e-3 * lead_ms or math.inf,
        max_prefill_s=1e-3 * prefill_ms or math.inf,
        max_step_rows=_max_step_rows(config, backbone),
        min_pace=config.real("min_pace", _MIN_PACE, Real(0.0, 1.0, note=nobody_refused)),
    )


def _max_step_rows(config: ModelConfig, backbone: Backbone) -> int:
    """As the parameter says, or, where it is `auto`: on a CPU, where arithmetic bounds a step over more."""
    if config.parameters.get("max_step_rows", AUTO) != AUTO:
        return config.whole("max_step_rows", backbone.num_slots)
    return CPU_ROWS if backbone.device.type == "cpu" else backbone.num_slots


def _record(step: DecodeStep, methods: MethodBook, sampling: SamplingDefaults) -> None:
    """What requests get that choose nothing, and plain decoding: where a device records steps."""
    if step.graphs is None:
        return
    began = time.perf_counter()
    usual = RequestOptions.from_parameters({}, sampling)
    for options in (usual, replace(usual, drafter=PLAIN.drafter, verifier=PLAIN.verifier)):
        method = methods.of(options)
        step.record(method, options, methods.usual_nodes(method))
    note(f"talker: steps recorded as {step.graphs.count} graphs in {time.perf_counter() - began:.1f} s")


def _warm_up(parts: TalkerParts, limits: EngineConfig, methods: MethodBook) -> None:
    """Speaks as requests do, alone and in company; raises what would have failed the first client.

    Each drafter speaks alone, then all together.
    """
    backbone, drafters = parts.backbone, methods.offer.drafters
    engine = TalkerEngine(backbone, limits, step=parts.step)
    # Pinned, for budgets should not learn from prompts that say nothing.
    plain = RequestOptions(drafter="none", verifier="match", max_seconds=_WARM_UP_SECONDS)
    alone = [plain, *(replace(plain, drafter=drafter, pin_draft=True) for drafter in drafters)]
    company = (alone * backbone.num_slots)[: min(4, backbone.num_slots)]
    try:
        for streams in (*([options] for options in alone), company):
            _speak_all(engine, backbone.hidden_size, methods, streams)
    finally:
        engine.close()


def _speak_all(
    engine: TalkerEngine, width: int, methods: MethodBook, streams: Sequence[RequestOptions]
) -> None:
    rng = np.random.default_rng(0)
    outlets = [_WarmUpOutlet() for _ in streams]
    for stream, (options, outlet) in enumerate(zip(streams, outlets, strict=True)):
        prompt = rng.standard_normal((_WARM_UP_SYMBOLS, width)).astype(np.float32)
        header = SegmentHeader(stream + 1, 0, 1, 0, 0, seed=stream)
        engine.submit(SegmentRequest(header, prompt, options, "", outlet, methods.of(options)))
    for outlet in outlets:
        outlet.ended.result()
