"""The engine as served, without Triton and without a draft."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import torch
from talkahead.backbone.decoder_choice import DecoderChoice, load_decoder
from talkahead.backbone.llama import load_llama
from talkahead.backbone.reach_choice import settle_reach
from talkahead.config import RequestOptions
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_engine import TalkerEngine
from talkahead.errors import TalkaheadError
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat
from talkahead.types import SegmentHeader

from perf.talker.talker import Prompt


class EngineTalker:
    """Windows are cut; of each, the new frames are kept."""

    def __init__(
        self, repository: Path, num_streams: int, dtype: torch.dtype, decoder: DecoderChoice
    ) -> None:
        config, state = load_llama(repository / "talker" / "1")
        # All that is drawn counts here, whether a listener would hear it or not.
        speech = replace(SpeechFormat.read(repository / "vocoder" / "1"), unheard_frames=0)
        tokens = load_family(speech.family).token_map(speech)
        backbone = load_decoder(
            config,
            state,
            num_slots=num_streams,
            max_positions=speech.max_positions,
            dtype=dtype,
            choice=decoder,
        )
        settle_reach(backbone)
        self._engine = TalkerEngine(backbone, EngineConfig(speech, tokens))
        self._streams = 0

    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> list[list[int]]:
        outlets = []
        for index, prompt in enumerate(prompts):
            self._streams += 1
            outlets.append(_Listener())
            header = SegmentHeader(self._streams, 0, 1, 0, 0, seed=seed + index)
            self._engine.submit(SegmentRequest(header, prompt, options, "", outlets[-1]))
        return [outlet.frames.result() for outlet in outlets]

    def close(self) -> None:
        self._engine.close()


class _Listener:
    """An outlet that keeps new frames."""

    def __init__(self) -> None:
        self.frames: Future[list[int]] = Future()
        self._heard: list[int] = []

    def send(self, window: Window) -> None:
        first = window.header.context
        self._heard += window.frames[first : first + window.header.new, 0].tolist()

    def close(self) -> None:
        self.frames.set_result(self._heard)

    def fail(self, error: TalkaheadError) -> None:
        self.frames.set_exception(error)
