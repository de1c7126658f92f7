"""Drafts of public checkpoints learn from speech with their prompts, rules and sampling."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from periodic_talker import TEXTS
from public_folders import Public, write_codec, write_llasa, write_neutts, write_orpheus
from talkahead.draft_training import draft_run
from talkahead.draft_training.draft_order import DraftOrder
from talkahead.draft_training.draft_run import DraftRun, carry_out
from talkahead.draft_training.reader import Reader
from talkahead.draft_training.speech_generator import SpeechGenerator
from talkahead.draft_training.texts import DEFAULT, Split, read_texts
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.draft_artifact import load_drafter
from talkahead.drafting.draft_pool import DraftPool
from talkahead.errors import TalkaheadError
from talkahead.families.imported_checkpoint import Download
from talkahead.families.importing import read_checkpoint
from talkahead.families.registry import load_family
from talkahead.families.repository_writer import write_repository
from talkahead.manifest import Manifest, sha256

# SNAC's library scripts a function with torch.jit when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

CODES = 32


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DraftOrder:
    """A second of each text, for talkers of random weights do not end."""
    monkeypatch.setattr(draft_run, "NODES", (2, 4))
    monkeypatch.setattr(draft_run, "_COUNTED", 4)
    monkeypatch.setattr(draft_run, "_TIMED", 2)
    monkeypatch.setattr(draft_run, "_TRIED", 4)
    monkeypatch.setattr(draft_run, "_LONGEST_S", 1.0)
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    return DraftOrder(tmp_path / "repository", texts, minutes=0.1, heads=2, block_size=64, steps=20)


def write(family: str, public: Callable[[Path], Public], order: DraftOrder) -> None:
    download = Download(order.repository.parent / "public", order.repository.parent / "codec")
    public(download.folder)
    (download.folder / "voices").mkdir()
    (download.folder / "voices" / "jo.json").write_text(json.dumps({"text": "I am Jo.", "codes": [3, 1, 4]}))
    write_codec(family, download.codec)
    write_repository(read_checkpoint(family, download), order.repository)


@pytest.mark.parametrize(
    ("family", "public"), [("llasa", write_llasa), ("orpheus", write_orpheus), ("neutts", write_neutts)]
)
def test_heads_of_public_checkpoints_are_trained_and_can_be_served(
    family: str, public: Callable[[Path], Public], order: DraftOrder
) -> None:
    write(family, public, order)
    said: list[str] = []
    carry_out([order], said.append)
    counted = Acceptance.read(order.destination)
    assert counted is not None and 1.0 <= counted.of(2) <= counted.of(4) <= 4.0 and counted.of(4) > 1.0
    sampling = json.loads((order.talker / "generation_config.json").read_text())
    assert (counted.temperature, counted.top_p) == (sampling["temperature"], sampling["top_p"])
    load_drafter(order.destination, order.talker, DraftPool(2, 64))
    Manifest.read(order.destination).verify(order.destination)
    assert said[-1].startswith("heads+match: ")
    trees = CalibratedTrees.read(order.destination, sha256(order.destination / "model.safetensors"))
    assert set(trees.tolerant) == {3} and [one.nodes for one in trees.of_trials(3)] == [2, 4]
    by_one, by_three = ([one.committed_per_step for one in trees.of_trials(trials)] for trials in (1, 3))
    assert all(1 <= tokens <= 4 for tokens in by_three) and by_three[-1] > by_one[-1] - 0.5
    assert any("nodes with tolerance 3, where they were counted" in line for line in said)


class Store:
    """As a `SpeechStore` whose utterances all said the same."""

    def __init__(self, tokens: list[int]) -> None:
        self._said = SimpleNamespace(tokens=torch.tensor(tokens))

    def __getitem__(self, number: int) -> SimpleNamespace:
        return self._said


@pytest.mark.parametrize(
    ("family", "public"), [("llasa", write_llasa), ("orpheus", write_orpheus), ("neutts", write_neutts)]
)
def test_drafts_meet_prompts_that_go_on_from_speech(
    family: str, public: Callable[[Path], Public], order: DraftOrder
) -> None:
    """As served ones do: of references, and of later segments where nothing fixes the voice."""
    write(family, public, order)
    reader = Reader(order.repository)
    generator = SpeechGenerator(reader, [reader.passages(text)[0] for text in TEXTS], seed=1)
    books = len(reader.speech.codebooks)
    codes = np.arange(4 * books, dtype=np.int32).reshape(4, books) % CODES
    eos = CODES * books
    said = [*(codes + CODES * np.arange(books)).flatten().tolist(), eos]
    number, passages = 66, generator.passages
    told = [passages[place % len(passages)] for place in (number, number - 64)]
    prompt = generator._prompt_beside(number, Store(said))  # type: ignore[arg-type]
    loaded = load_family(family)
    frontend = loaded.frontend(order.repository / "frontend" / "1", reader.speech)
    encoder = loaded.prompt_encoder(order.repository / "encoder" / "1", torch.device("cpu"))
    (segment,) = frontend.segments(told[0].words, told[1].words)
    assert torch.equal(prompt, encoder.prompt(segment.units, len(reader.voices), codes))
    plain = generator.prompts(number, 1)[0]
    assert len(prompt) > len(encoder.prompt(segment.units, len(reader.voices), codes[:0]))
    for others in (said[:-1], [eos], [*said[:-1] * 400, eos]):  # cut, empty, too long
        assert torch.equal(generator._prompt_beside(number, Store(others)), plain)  # type: ignore[arg-type]
    assert torch.equal(generator._prompt_beside(65, Store(said)), generator.prompts(65, 1)[0])  # type: ignore[arg-type]
    assert torch.equal(generator._prompt_beside(3, Store(said)), generator.prompts(3, 1)[0])  # type: ignore[arg-type]


def test_texts_that_come_along_last_for_the_hour_that_is_usual() -> None:
    texts = read_texts(DEFAULT)
    assert sum(map(len, texts[Split.TRAIN])) / 15 > 55 * 60  # characters a second
    assert len({text for own in texts.values() for text in own}) == sum(map(len, texts.values()))


def test_a_frames_codes_are_drawn_from_their_own_codebooks(order: DraftOrder) -> None:
    write("orpheus", write_orpheus, order)
    run = DraftRun(order, print)
    run.speak()
    store = run.speech.store(Split.TRAIN)
    for number in range(8):
        codes = [token for token in store[number].tokens.tolist() if token != 7 * CODES]
        assert [code // CODES for code in codes] == [step % 7 for step in range(len(codes))]


@pytest.mark.parametrize("drafter", ["mtp", "draft_lm"])
def test_layers_that_are_no_llamas_are_no_beginning(drafter: str, order: DraftOrder) -> None:
    write("neutts", write_neutts, order)
    with pytest.raises(TalkaheadError, match=r"biases or norms .* \(qwen2\); .*: --drafter heads"):
        DraftRun(replace(order, drafter=drafter, block_size=None), print)
