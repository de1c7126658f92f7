"""`talker`: hands each segment to the engine, and the engine's windows back to Triton."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
import torch

from talkahead.audio.codec import CodecConfig
from talkahead.backbone.backbone import Backbone
from talkahead.backbone.decoder_choice import DecoderChoice, Precision, load_decoder
from talkahead.backbone.llama import load_llama
from talkahead.config import ModelConfig, RequestOptions
from talkahead.drafting.draft_files import draft_folder, group_folder, read_offer
from talkahead.drafting.drafter_choice import DraftPool, load_sized_drafter
from talkahead.drafting.group_artifact import load_groups
from talkahead.engine.acknowledgements import AcknowledgementReceiver, ProgressSender
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.method_book import MethodBook
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_engine import TalkerEngine
from talkahead.errors import ArtifactMismatch, BadRequest, TalkaheadError
from talkahead.serving.artifacts import verified
from talkahead.serving.default_pair import default_pair
from talkahead.serving.model_device import claim_device
from talkahead.serving.triton_api import InferenceRequest, ResponseSender, TritonApi, Wire
from talkahead.speculation.pairs import Offer
from talkahead.speculation.registry import TargetTokens
from talkahead.telemetry import TalkerTelemetry
from talkahead.types import SegmentHeader

_Choice = TypeVar("_Choice", bound=StrEnum)
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
            FRAMES=window.frames, WINDOW=window.header.to_array(), STATS=window.stats.to_array()
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
        device = claim_device(config, "talker")
        codec = CodecConfig.from_file(config.artifact_folder("vocoder") / "codec.json")
        offer = read_offer(config.folder, default_pair(config))
        backbone = _load_backbone(config, codec, device, offer)
        self._methods = _load_methods(config, backbone, offer)
        self._telemetry = TalkerTelemetry(api)
        limits = EngineConfig(
            context_frames=codec.context_frames,
            lookahead_frames=codec.lookahead_frames,
            phases=codec.phase_counter,
            silence_code=codec.silence_code,
            frames_per_s=codec.sample_rate_hz / codec.hop,
            max_pending=config.whole("max_pending", EngineConfig.max_pending),
        )
        _warm_up(backbone, limits, self._methods, offer)
        # The engine wants the socket's address, so the socket is bound first and read afterwards.
        self._receiver = AcknowledgementReceiver()
        self._progress = ProgressSender()
        self._engine = TalkerEngine(
            backbone,
            limits,
            address=self._receiver.address,
            telemetry=self._telemetry,
            tell=self._progress.send,
            log=api.Logger.log_error,
        )
        self._receiver.start(self._engine)

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
        self._telemetry.close()

    def _read(self, request: InferenceRequest, outlet: SenderOutlet) -> SegmentRequest:
        options = RequestOptions.from_json(request.parameters())
        return SegmentRequest(
            header=SegmentHeader.from_array(self._wire.array(request, "SEGMENT")),
            prompt=self._wire.array(request, "PROMPT").astype(np.float32),
            options=options,
            request_id=outlet.name,
            outlet=outlet,
            method=self._methods.of(options),
        )


def _load_backbone(config: ModelConfig, codec: CodecConfig, device: torch.device, offer: Offer) -> Backbone:
    shape, state = load_llama(verified(config.folder))
    if shape.vocab_size != codec.codebook_size + 1:
        raise ArtifactMismatch(
            f"the talker knows {shape.vocab_size - 1} codes, the vocoder {codec.codebook_size}; they were "
            "trained apart: rebuild both with make train"
        )
    return load_decoder(
        shape,
        state,
        num_slots=config.whole("slots", 16),
        max_positions=shape.max_position_embeddings,
        max_nodes=max((sizes.nodes[-1] for sizes in offer.drafters.values()), default=1),
        dtype=_chosen(config, "precision", Precision.FLOAT32).dtype,
        device=device,
        choice=_chosen(config, "decoder", DecoderChoice.AUTO),
    )


def _load_methods(config: ModelConfig, backbone: Backbone, offer: Offer) -> MethodBook:
    """Drafters follow the talker's slots."""
    pool = DraftPool.serving(
        backbone.num_slots,
        backbone.max_positions,
        str(backbone.device),
        _chosen(config, "decoder", DecoderChoice.AUTO),
    )
    drafters = {
        name: load_sized_drafter(verified(draft_folder(config.folder, name)), config.folder, pool)
        for name in offer.drafters
    }
    groups = load_groups(verified(group_folder(config.folder)), config.folder) if offer.similarities else {}
    return MethodBook(offer, drafters, TargetTokens(backbone.eos, groups))


def _chosen(config: ModelConfig, name: str, default: _Choice) -> _Choice:
    """A parameter of config.pbtxt that names one of a few."""
    text = config.parameters.get(name, default)
    try:
        return type(default)(text)
    except ValueError as error:
        raise BadRequest(f"talker: parameter {name}", text, ", ".join(type(default))) from error


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


def _warm_up(backbone: Backbone, limits: EngineConfig, methods: MethodBook, offer: Offer) -> None:
    """Speaks as requests do, alone and in company; raises what would have failed the first client.

    Each drafter speaks alone, then all together.
    """
    engine = TalkerEngine(backbone, limits)
    # Pinned, for budgets should not learn from prompts that say nothing.
    plain = RequestOptions(drafter="none", verifier="match", max_seconds=_WARM_UP_SECONDS)
    alone = [plain, *(replace(plain, drafter=drafter, pin_draft=True) for drafter in offer.drafters)]
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
