"""A voice that no prompt fixes is one speaker's throughout a stream: segments go on from the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_backend import FakeBackend
from fake_ensemble import FakeEnsemble
from public_folders import write_codec, write_llasa
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import ModelConfig
from talkahead.families.contracts import Segment
from talkahead.families.imported_checkpoint import Download
from talkahead.families.importing import read_checkpoint
from talkahead.families.registry import load_family
from talkahead.families.repository_writer import write_repository
from talkahead.speech_format import SpeechFormat
from talkahead.types import WindowHeader
from torch import Tensor

TEXT = (
    "It was a dark night, she said. "
    "The juice of lemons makes fine punch, and it is easy to tell the depth of a well from there. "
    "Is it late?"
)
POSITIONS, SECONDS = 900, 60.0


@pytest.fixture(scope="module")
def llasa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llasa")
    write_llasa(folder / "talker")
    write_codec("llasa", folder / "codec")
    download = Download(folder / "talker", folder / "codec", positions=POSITIONS)
    write_repository(read_checkpoint("llasa", download), folder / "repository")
    return folder / "repository"


class Ear:
    """Keeps the new frames of all windows on their way to the vocoder."""

    def __init__(self, ensemble: FakeEnsemble) -> None:
        self.frames: list[int] = []
        self._vocoder = ensemble._vocoder
        ensemble._vocoder = self  # type: ignore[assignment]

    def execute(self, requests: list[object]) -> None:
        for request in requests:
            header = WindowHeader.from_array(request.inputs["WINDOW"])  # type: ignore[attr-defined]
            frames = request.inputs["FRAMES"]  # type: ignore[attr-defined]
            self.frames += frames[header.context : header.context + header.new, 0].tolist()
        self._vocoder.execute(requests)  # type: ignore[arg-type]

    def close(self) -> None:
        self._vocoder.close()


@pytest.fixture
def ear(backend: FakeBackend, config_of: Callable[..., ModelConfig], llasa: Path) -> Iterator[Ear]:
    ensemble = FakeEnsemble(backend, partial(config_of, folder=llasa))
    ear = Ear(ensemble)
    spoken = ensemble.speak(TEXT, options={"temperature": 0.0, "max_seconds": SECONDS})
    spoken.wait()
    assert spoken.errors == []
    yield ear
    ensemble.close()


class Reader:
    """Frontend, encoder and talker, one after the other."""

    def __init__(self, repository: Path) -> None:
        versions = {name: repository / name / "1" for name in ("frontend", "encoder", "talker", "vocoder")}
        self.speech, family = SpeechFormat.read(versions["vocoder"]), load_family("llasa")
        frontend = family.frontend(versions["frontend"], self.speech)
        self.segments = list(frontend.segments(TEXT, is_fixed=False))
        self._encoder = family.prompt_encoder(versions["encoder"], torch.device("cpu"))
        self.checkpoint = Checkpoint(versions["talker"])
        self._decoder = SlotDecoder(
            self.checkpoint.config, self.checkpoint, num_slots=1, max_positions=POSITIONS
        )

    def prompt(self, segment: Segment, opening: list[int]) -> Tensor:
        """As of a reference with these codes."""
        codes = np.array(opening[-segment.recall :] if segment.recall else [], np.int32)[:, None]
        return self._encoder.prompt(segment.units, 1, codes)

    def says(self, prompt: Tensor, most: int) -> list[int]:
        """Greedily, each token after a prefill of all before it."""
        table, end = self.checkpoint["model.embed_tokens.weight"], self.checkpoint.config.eos
        rows, said = prompt, list[int]()
        while len(said) < min(most, POSITIONS - len(prompt)):
            logits = self._decoder.prefill([0], rows[None], [len(rows)]).logits[0, 0].clone()
            if not said:
                logits[end] = -torch.inf
            if (token := int(logits.argmax())) == end:
                break
            said.append(token)
            rows = torch.cat([rows, table[token][None].float()])
        return said


def test_segments_are_spoken_as_behind_a_recording_of_the_first(ear: Ear, llasa: Path) -> None:
    reader = Reader(llasa)
    first, *others = reader.segments
    assert len(others) >= 1 and all(segment.recall for segment in others)
    opening = reader.says(reader.prompt(first, []), POSITIONS)
    place = len(opening)
    assert ear.frames[:place] == opening
    for segment, following in zip(others, reader.segments, strict=False):
        place += reader.speech.frames(following.pause_s)
        prompt = reader.prompt(segment, opening)
        assert len(prompt) > len(segment.units) - 1 + min(segment.recall, len(opening)) - 1
        said = reader.says(prompt, POSITIONS)
        alone = reader.says(reader.prompt(segment, [])[: len(segment.units)], len(said))
        heard = ear.frames[place : place + len(said)]
        assert heard == said != alone and len(said) > 10
        place += len(said)
