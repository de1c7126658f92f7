"""Two configurations by turns against a scripted Triton."""

from __future__ import annotations

import grpc
from fake_triton import FakeStream, FakeTriton

from instruments.server import Server
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns

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
