"""Two configurations by turns against a scripted Triton."""

from __future__ import annotations

import grpc
import pytest
from fake_triton import FakeStream, FakeTriton
from talkahead_client import Figures

from instruments.server import Server
from perf.cell import Cell
from perf.part import Part
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns
from perf.utterance import Utterance

ALONE = Load(Mode.CLOSED, 1, 0.0, None, {})


def test_the_order_turns_round_from_slice_to_slice(triton: FakeTriton) -> None:
    server = Server(triton.address, None)
    own, beside = (Configuration(name, server, {"drafter": name}) for name in ("heads", "none"))
    cells = by_turns([own, beside], ALONE, slices=3)
    asked = [stream.request.parameters for stream in triton.streams]
    warm_up = ["heads", "none"]
    turns = ["heads", "none", "none", "heads", "heads", "none"]
    assert [one["drafter"].string_param for one in asked] == [*warm_up, *turns]
    seeds = [one["seed"].int64_param for one in asked[2:]]
    assert seeds[0::2] == seeds[1::2] and len(set(seeds)) == 3
    assert [cell.configuration for cell in cells] == ["heads", "none"]
    assert [len(cell.parts) for cell in cells] == [3, 3]
    gain = cells[0].over(cells[1]).gain
    assert gain is not None and gain.over == "none" and cells[0].gain is None


def test_each_of_many_begins_a_slice(triton: FakeTriton) -> None:
    server = Server(triton.address, None)
    names = ("heads", "mtp", "none")
    by_turns([Configuration(name, server, {"drafter": name}) for name in names], ALONE, slices=4)
    asked = [stream.request.parameters["drafter"].string_param for stream in triton.streams[3:]]
    slices = [asked[at : at + 3] for at in range(0, 12, 3)]
    assert [one[0] for one in slices] == ["heads", "mtp", "none", "heads"]
    assert all(set(one) == set(names) for one in slices)


def test_an_error_is_a_sample_too(triton: FakeTriton) -> None:
    def fail(stream: FakeStream) -> object:
        stream.fail(grpc.StatusCode.INTERNAL, "because")
        return iter(())

    triton.script = fail
    [cell] = by_turns([Configuration("it", Server(triton.address, None), {})], ALONE, slices=1)
    assert (cell.spoken, cell.failed, cell.pair) == (0, 1, "none spoken")
    assert cell.parts[0].utterances[0].error == "INTERNAL: because"
    assert cell.row()["first chunk p50"] == "nan ms"


def test_what_a_listener_misses_counts_without_a_buffer_and_with_one() -> None:
    """Second chunks 50 and 150 ms after the first has been played out, and one that began late."""

    def utterance(first_ms: float, second_ms: float) -> Utterance:
        dry_ms = max(0.0, second_ms - first_ms - 100.0)
        figures = Figures(first_ms, None, second_ms, 0.2, second_ms / 200, 2, int(dry_ms > 0), dry_ms)
        return Utterance(0, 0, 0.0, figures, None, None, (first_ms, second_ms), (100.0, 100.0))

    spoken = [utterance(20, 100), utterance(20, 170), utterance(20, 270), utterance(200, 210)]
    found = Cell.of("it", Load(Mode.CLOSED, 1, 1.0, None, {}), [Part(2.0, spoken, False, 0.25)], [])
    assert (found.ran_dry, found.ran_dry_buffered) == (2, 1)
    assert found.stalled_s == pytest.approx(0.2)
    assert found.goodput_per_s == 0.5
    assert found.last_chunk_ms.p50 == pytest.approx(190)
    assert found.generator_share == 0.25
