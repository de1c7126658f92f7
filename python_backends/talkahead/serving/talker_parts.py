"""What a talker is made of: the decoder, and the methods that draft for it and verify."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.backbone.checkpoint import EMBEDDINGS, Checkpoint
from talkahead.backbone.decoder_choice import (
    DecoderChoice,
    Precision,
    StepSizes,
    count_memory,
    load_decoder,
)
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.backbone.thread_choice import ThreadChoice, most_threads
from talkahead.config import AUTO, ModelConfig
from talkahead.drafting.draft_artifact import load_drafter
from talkahead.drafting.draft_files import draft_folder, group_folder
from talkahead.drafting.draft_pool import DraftPool
from talkahead.drafting.group_artifact import load_groups
from talkahead.drafting.offer import Offer, read_offer
from talkahead.engine.decode_step import DecodeStep
from talkahead.engine.method_book import MethodBook
from talkahead.errors import ArtifactMismatch, BadRequest
from talkahead.families.contracts import TokenMap
from talkahead.generation_config import AlignmentHead, read_alignment_head, read_sampling
from talkahead.serving.artifacts import verified
from talkahead.serving.gpu_memory import GpuMemory, refuse_beyond_gpu
from talkahead.serving.startup_notes import note
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.sampling import support_of
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speech_format import SpeechFormat

_Choice = TypeVar("_Choice", bound=StrEnum)
_UNBOUNDED, _MOST_SLOTS = 1 << 62, 256


@dataclass(frozen=True)
class TalkerParts:
    """A loaded talker: one that requests without a pair speak plainly with.

    Args:
        step: over its slots, of all that speak by turns: what it has recorded is there once.
    """

    backbone: Backbone
    methods: MethodBook
    rows: SpeechRows
    step: DecodeStep

    @classmethod
    def load(
        cls,
        config: ModelConfig,
        speech: SpeechFormat,
        tokens: TokenMap,
        device: torch.device,
        threads: ThreadChoice,
    ) -> Self:
        """Raises ArtifactMismatch or BadRequest for weights or parameters that cannot be served."""
        offer = read_offer(config.folder)
        checkpoint = Checkpoint(verified(config.folder))
        backbone = _load_backbone(config, checkpoint, speech, tokens, device, offer)
        share = threads.settle(backbone, speech.frames_per_s * speech.steps_per_frame)
        note(f"talker: of {most_threads()} cores {share.steps} share its steps, {share.prompts} its prompts")
        step = DecodeStep(
            backbone, NullDrafter(), MatchVerifier(), allowed=tokens.allowed, recorder=_recorder(backbone)
        )
        return cls(backbone, _load_methods(config, backbone, offer), SpeechRows(checkpoint[EMBEDDINGS]), step)


@dataclass(frozen=True)
class SpeechRows:
    """What the encoder puts into prompts for the talker's tokens: rows of the table [V, D] as they lie in the
    talker's file, however precisely it is served."""

    table: Tensor

    def __call__(self, tokens: npt.NDArray[np.int64]) -> Tensor:
        """float32 [S, D]"""
        return self.table[torch.from_numpy(tokens)].float()


def _load_backbone(
    config: ModelConfig,
    checkpoint: Checkpoint,
    speech: SpeechFormat,
    tokens: TokenMap,
    device: torch.device,
    offer: Offer,
) -> Backbone:
    shape = checkpoint.config
    if (shape.vocab_size, shape.eos_token_id) != (tokens.eos + 1, tokens.eos):
        raise ArtifactMismatch(
            f"{config.folder}: the talker knows {shape.vocab_size} tokens, ends with {shape.eos_token_id}; "
            f"the format beside the vocoder has {tokens.eos + 1} and {tokens.eos}: rebuild both together"
        )
    budget = config.whole("memory_bytes", _UNBOUNDED)
    max_nodes = max((sizes.nodes[-1] for sizes in offer.drafters.values()), default=1)
    dtype = _chosen(config, "precision", Precision.FLOAT32).dtype
    one_slot = count_memory(
        shape,
        checkpoint[EMBEDDINGS].dtype,
        num_slots=1,
        max_positions=speech.max_positions,
        max_nodes=max_nodes,
        dtype=dtype,
        device=device,
    )
    num_slots = _num_slots(config, one_slot, budget)
    if device.type == "cuda":
        whole = replace(one_slot, num_slots=num_slots)
        pool = _draft_pool(config, num_slots, speech.max_positions, device)
        sampling = read_sampling(config.folder)
        support = support_of(sampling.temperature, sampling.top_k)
        taken = GpuMemory.of(config, shape, whole, max_nodes, list(offer.drafters), pool, support)
        refuse_beyond_gpu(taken, device)
    backbone = load_decoder(
        shape,
        checkpoint,
        num_slots=num_slots,
        dtype=dtype,
        device=device,
        choice=_chosen(config, "decoder", DecoderChoice.AUTO),
        memory_bytes=budget,
        max_positions=speech.max_positions,
        max_nodes=max_nodes,
        alignment_head=_alignment_head(config, shape),
        sizes=_chosen(config, "step_sizes", StepSizes.BUCKETS),
    )
    note(f"talker: {'; '.join(backbone.memory.lines())}")
    return backbone


def _recorder(backbone: Backbone) -> GraphRecorder | None:
    return backbone.recorder if isinstance(backbone, SlotDecoder) else None


def _alignment_head(config: ModelConfig, shape: DecoderConfig) -> AlignmentHead | None:
    head = read_alignment_head(config.folder)
    layers, heads = shape.num_hidden_layers, shape.num_attention_heads
    if head is not None and not (0 <= head.layer < layers and 0 <= head.head < heads):
        raise ArtifactMismatch(
            f"{config.folder}: its generation_config.json names head {head.head} of layer {head.layer} in "
            f"alignment_heads; the talker has {heads} heads in {layers} layers"
        )
    return head


def _num_slots(config: ModelConfig, one_slot: DecoderMemory, budget: int) -> int:
    """As the parameter says, or, where it is `auto`, as many as the memory holds."""
    if config.parameters.get("slots") != AUTO:
        return config.whole("slots", 16)
    if budget == _UNBOUNDED:
        raise BadRequest("talker: parameter slots", AUTO, "a whole number; auto goes with memory_bytes")
    return max(min(one_slot.slots_within(budget), _MOST_SLOTS), 1)


def _load_methods(config: ModelConfig, backbone: Backbone, offer: Offer) -> MethodBook:
    """Drafters follow the talker's slots."""
    pool = _draft_pool(config, backbone.num_slots, backbone.max_positions, backbone.device)
    drafters = {
        name: load_drafter(verified(draft_folder(config.folder, name)), config.folder, pool)
        for name in offer.drafters
    }
    groups = (
        load_groups(verified(group_folder(config.folder)), config.folder, backbone.device)
        if offer.similarities
        else {}
    )
    return MethodBook(offer, drafters, TargetTokens(backbone.eos, groups))


def _draft_pool(config: ModelConfig, num_slots: int, max_positions: int, device: torch.device) -> DraftPool:
    choice = _chosen(config, "decoder", DecoderChoice.AUTO)
    own = _chosen(config, "precision", Precision.FLOAT32).dtype
    return DraftPool.serving(num_slots, max_positions, str(device), choice, target=own)


def _chosen(config: ModelConfig, name: str, default: _Choice) -> _Choice:
    """A parameter of config.pbtxt that names one of a few."""
    text = config.parameters.get(name, default)
    try:
        return type(default)(text)
    except ValueError as error:
        raise BadRequest(f"talker: parameter {name}", text, ", ".join(type(default))) from error
