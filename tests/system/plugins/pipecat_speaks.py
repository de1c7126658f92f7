"""Speaks a text with one of Pipecat's services, and prints what it made of the answer.

It runs in an environment of its own: `pipecat_speaks.py openai|elevenlabs|nvidia HTTP RIVA TEXT`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from pipecat.frames.frames import EndFrame, Frame, TTSAudioRawFrame, TTSSpeakFrame, TTSTextFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.elevenlabs.tts import ElevenLabsTTSService
from pipecat.services.nvidia.tts import NvidiaTTSService
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.services.tts_service import TTSService
from pipecat.workers.runner import WorkerRunner

RATE_HZ = 24_000


def service(name: str, http: str, riva: str) -> TTSService:
    """Made as the documentation says."""
    if name == "openai":
        return OpenAITTSService(base_url=f"http://{http}/v1", api_key="none", sample_rate=RATE_HZ)
    if name == "nvidia":
        voice = NvidiaTTSService.Settings(voice="heart")
        return NvidiaTTSService(server=riva, use_ssl=False, settings=voice, sample_rate=RATE_HZ)
    voice = ElevenLabsTTSService.Settings(voice="heart")
    url = f"ws://{http}"
    return ElevenLabsTTSService(url=url, api_key="none", settings=voice, sample_rate=RATE_HZ)


class Listener(FrameProcessor):
    """Keeps what reaches the end of the pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self.audio_s = 0.0
        self.rates_hz: set[int] = set()
        self.words: list[tuple[str, int | None]] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.audio_s += len(frame.audio) / (2 * frame.sample_rate)
            self.rates_hz.add(frame.sample_rate)
        elif isinstance(frame, TTSTextFrame):
            self.words.append((frame.text, frame.pts))
        await self.push_frame(frame, direction)


async def speak(name: str, http: str, riva: str, text: str) -> dict[str, Any]:
    listener = Listener()
    worker = PipelineWorker(Pipeline([service(name, http, riva), listener]))
    runner = WorkerRunner()
    await runner.add_workers(worker)
    await worker.queue_frames([TTSSpeakFrame(text), EndFrame()])
    await runner.run()
    [rate_hz] = listener.rates_hz
    first_ns = next((pts for _, pts in listener.words if pts), 0)
    told = [[word, (pts - first_ns) / 1e9] for word, pts in listener.words if pts]
    return {"audio_s": listener.audio_s, "rate_hz": rate_hz, "words": told}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(speak(*sys.argv[1:]))))
