"""Talkers by turns, the best precision of each kind, and whether they are the same model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.backbone.decoder_choice import DecoderChoice
from talkahead.config import RequestOptions
from talkahead.speech_format import SpeechFormat

from instruments.environment import REPOSITORY
from perf.talker import __main__ as command
from perf.talker.agreement import Agreement
from perf.talker.comparison import Comparison, Contender, Run, Score, compare
from perf.talker.engine_talker import EngineTalker
from perf.talker.generate_talker import GenerateTalker
from perf.talker.prompts import text_prompts
from perf.talker.talker import Prompt, Talker

SHORT = RequestOptions(max_seconds=0.6)


class _Counting:
    """A talker that speaks 10 frames per prompt and remembers what it was given."""

    def __init__(self, told: list[str] | None = None, name: str = "") -> None:
        self.batches: list[list[int]] = []
        self.is_closed = False
        self._told, self._name = told, name

    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> list[list[int]]:
        self.batches.append([len(prompt) for prompt in prompts])
        if self._told is not None:
            self._told.append(self._name)
        return [list(range(10)) for _ in prompts]

    def close(self) -> None:
        self.is_closed = True


class _Saying:
    """A talker that says what it is told to, and only when nothing is drawn."""

    def __init__(self, *said: str) -> None:
        self._said = [list(map(ord, one)) for one in said]

    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> list[list[int]]:
        assert options.temperature == 0
        return self._said

    def close(self) -> None:
        return


def scored(kind: str, precision: str, *frames_per_s: float) -> Score:
    runs = [Run(round(10 * one), 10.0) for one in frames_per_s]
    return Score(kind, precision, sorted(frames_per_s)[len(runs) // 2], runs)


def test_all_get_the_same_batches_by_turns_after_a_warm_up() -> None:
    prompts = [np.zeros((length, 2), np.float32) for length in (1, 2, 3)]
    told: list[str] = []
    talkers = {name: _Counting(told, name) for name in "abc"}
    made: list[int] = []

    def make(name: str, streams: int) -> Talker:
        made.append(streams)
        return talkers[name]

    contenders = [Contender(name, "float32", partial(make, name)) for name in talkers]
    comparison = compare(contenders, prompts, RequestOptions(), streams=2, repeats=3)
    assert made == [2, 2, 2] and told == list("abc" * 4)
    for talker in talkers.values():
        assert talker.batches == [[2, 3], [1, 2], [3, 1], [2, 3]] and talker.is_closed
    for score in comparison.scores:
        assert [run.frames for run in score.runs] == [20, 20, 20]
    assert set(comparison.ratios) == {"b", "c"} and comparison.row("abc")["repeats"] == "3"


def test_of_each_kind_the_better_precision_counts() -> None:
    scores = [
        scored("talkahead", "bfloat16", 1000, 2000, 3000),
        scored("generate", "float32", 200, 100, 300),
        scored("generate", "bfloat16", 90, 80, 70),
    ]
    comparison = Comparison.of(4, scores)
    assert comparison.ratios == {"generate": 10.0}  # the median of 5, 20 and 10
    row = comparison.row(("talkahead", "generate", "llama.cpp"))
    assert (row["talkahead"], row["generate"]) == ("2000 frames/s, bfloat16", "200 frames/s, float32")
    assert (row["over generate"], row["llama.cpp"], row["over llama.cpp"]) == ("10.00", "", "")


@pytest.mark.parametrize(
    ("other", "same", "parted"),
    [
        (("cake", "tea", "milk"), 3, (None, None)),
        (("cake", "tee", "milk"), 2, (1, 2)),
        (("cave", "tea", "milky"), 1, (0, 2)),
        (("cak", "tea", "ilk"), 1, (2, 0)),
    ],
)
def test_agreement_finds_the_first_frame_that_differs(
    other: tuple[str, ...], same: int, parted: tuple[int | None, int | None]
) -> None:
    prompts = [np.zeros((1, 2), np.float32)] * 3
    found = Agreement.of(_Saying("cake", "tea", "milk"), _Saying(*other), prompts, RequestOptions())
    assert (found.prompts, found.same, found.frames) == (3, same, 11)
    assert (found.parted_prompt, found.parted_frame) == parted
    assert found.is_same_model is (same > 1)
    assert (f"{same} of 3" in str(found)) is (same < 3)


def test_generate_says_what_the_engine_says() -> None:
    prompts = text_prompts(REPOSITORY)[:2]
    engine = EngineTalker(REPOSITORY, 2, torch.float32, DecoderChoice.AUTO)
    try:
        found = Agreement.of(engine, GenerateTalker(REPOSITORY, torch.float32), prompts, SHORT)
    finally:
        engine.close()
    frames = SpeechFormat.read(REPOSITORY / "vocoder" / "1").frames(SHORT.max_seconds)
    assert found.frames == 2 * frames and found.parted_frame is None


@pytest.mark.needs("llama_cpp")
def test_llama_cpp_says_what_the_engine_says_in_one_batch_and_after_another() -> None:
    from perf.talker.llama_cpp_talker import LlamaCppTalker

    prompts = text_prompts(REPOSITORY)[:3]
    engine = EngineTalker(REPOSITORY, 3, torch.float32, DecoderChoice.AUTO)
    other = LlamaCppTalker(REPOSITORY, 3, "float32", threads=1)
    whole = RequestOptions(max_seconds=4.0)
    try:
        for batch in (prompts, prompts[1:]):
            assert Agreement.of(engine, other, batch, whole).parted_frame is None
        lengths = {len(spoken) for spoken in other.speak(prompts, whole, seed=1)}
        assert all(0 < length < 200 for length in lengths)
    finally:
        engine.close()
        other.close()


def test_without_llama_cpp_the_command_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    monkeypatch.setattr(command, "EngineTalker", lambda *arguments: _Counting())
    monkeypatch.setattr(command, "GenerateTalker", lambda *arguments: _Counting())
    out = tmp_path / "talker.json"
    assert command.main(["--streams", "1", "2", "--repeats", "1", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    [missing] = [line for line in printed.err.splitlines() if "llama.cpp is missing" in line]
    assert "--editable '.[llama]'" in missing
    kept = json.loads(out.read_text())
    assert kept["settings"]["llama_cpp"] is None
    assert [one["streams"] for one in kept["results"]] == [1, 2]
    kinds = [(score["kind"], score["precision"]) for score in kept["results"][0]["scores"]]
    assert kinds[1:] == [("generate", "float32"), ("generate", "bfloat16")]
    assert kinds[0] == ("talkahead", command.precisions(DecoderChoice.AUTO)[-1])


def test_a_precision_that_this_machine_lacks_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "can_multiply", lambda dtype: dtype is torch.float32)
    assert command.precisions(DecoderChoice.NATIVE) == ["float32"]
    with pytest.raises(SystemExit):
        command.main(["--dtypes", "bfloat16"])
    assert "does not compute in bfloat16" in capsys.readouterr().err
