from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_backend import FakeBackend, Request
from fake_talker import Acknowledged
from talkahead.config import ModelConfig
from talkahead.errors import ArtifactMismatch
from talkahead.families.contracts import Codec, CodecWindow, Decoded
from talkahead.families.phonemic.family import FAMILY
from talkahead.serving.decode_cost import DecodeCost
from talkahead.serving.vocoder_server import VocoderServer
from talkahead.transport.messages import PassBegun, WindowDone
from talkahead.types import Spoken, Stats, StopReason, WindowHeader
from tiny_voice import CODES, HOP, RATE_HZ, SPEECH

STATS_VALUES = len(fields(Stats))


@pytest.fixture
def vocoder(backend: FakeBackend, config_of: Callable[..., ModelConfig]) -> Iterator[VocoderServer]:
    server = VocoderServer(backend, config_of("vocoder"))
    yield server
    server.close()


@pytest.fixture
def codec(repository: Path) -> Codec:
    return FAMILY.codec(repository / "vocoder" / "1", torch.device("cpu"))


def window(
    codes: list[int],
    context: int,
    new: int,
    *,
    chunk: int = 0,
    last: int = 0,
    address: int = 0,
    stream: int = 1,
    sequence: int = 0,
    position: int = 0,
    words: Sequence[tuple[int, int, int, int]] = (),
) -> Request:
    header = WindowHeader(
        address=address,
        stream=stream,
        generation=3,
        chunk=chunk,
        sequence=sequence,
        context=context,
        new=new,
        lookahead=len(codes) - context - new,
        last=last,
        reason=StopReason.END_OF_SPEECH if last else StopReason.RUNNING,
        position=position,
    )
    return Request(
        {
            "FRAMES": np.array(codes, np.int32).reshape(-1, 1),
            "WINDOW": header.to_array(),
            "STATS": np.arange(STATS_VALUES, dtype=np.int64),
            "WORDS": np.array(words, np.int32).reshape(-1, 4),
        }
    )


def answer(request: Request) -> dict[str, np.ndarray]:
    (response,) = request.sender.responses
    assert request.sender.is_final and response.error is None
    return {name: values[0] for name, values in response.tensors.items()}


def test_first_chunks_are_computed_in_the_urgent_stream(
    vocoder: VocoderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that holds one of them, and no other."""
    entered: list[bool] = []

    @contextmanager
    def noted() -> Iterator[None]:
        entered.append(True)
        yield

    monkeypatch.setattr(vocoder._urgent, "entered", noted)
    vocoder.execute([window([1, 2, 3, 4, 5, 6], 3, 2, chunk=4, position=9)])
    assert not entered
    vocoder.execute(
        [window([1, 2, 3], 0, 2), window([1, 2, 3, 4, 5, 6], 3, 2, chunk=4, position=9, stream=2)]
    )
    assert len(entered) == 1


def test_chunks_join_into_the_offline_decode(vocoder: VocoderServer, codec: Codec) -> None:
    codes = np.random.default_rng(1).integers(0, CODES, 40).tolist()
    before, after = SPEECH.context_frames, SPEECH.lookahead_frames
    cuts = [0, 2, 7, 25, 40]
    requests = []
    for chunk, (start, stop) in enumerate(pairwise(cuts)):
        left, right = max(start - before, 0), min(stop + after, 40)
        requests.append(
            window(
                codes[left:right],
                start - left,
                stop - start,
                chunk=chunk,
                last=int(stop == 40),
                position=start,
            )
        )
    vocoder.execute(requests)
    chunks = [answer(request) for request in requests]
    offline = CodecWindow(np.array(codes)[:, None], 0, len(codes), 0, position=0)
    whole = codec.decode([offline], [None])[0].audio
    assert np.abs(whole).max() > 0.05
    np.testing.assert_allclose(np.concatenate([chunk["AUDIO"] for chunk in chunks]), whole, atol=1e-5)
    assert [chunk["CHUNK_INDEX"].tolist() for chunk in chunks] == [[0], [1], [2], [3]]
    assert [chunk["IS_LAST"].tolist() for chunk in chunks] == [[False], [False], [False], [True]]
    assert all(chunk["SAMPLE_RATE"].tolist() == [RATE_HZ] for chunk in chunks)
    assert chunks[0]["STATS"].tolist() == list(range(STATS_VALUES))


def test_words_begin_where_their_frames_do(vocoder: VocoderServer) -> None:
    word, pause = (3, 8, 0, Spoken.WORD), (8, 9, 4, Spoken.PAUSE)
    request = window([1] * 9, 2, 5, words=(word, pause))
    vocoder.execute([request])
    told = answer(request)["WORDS"]
    assert told.tolist() == [[3, 8, 0, Spoken.WORD], [8, 9, 4 * HOP, Spoken.PAUSE]]


def test_no_word_begins_where_nothing_is_heard(vocoder: VocoderServer) -> None:
    request = window([CODES] * 5, 0, 5, words=[(0, 4, 2, Spoken.WORD)])
    vocoder.execute([request])
    assert answer(request)["WORDS"].shape == (0, 4)


def test_an_empty_closing_window_is_an_empty_chunk(vocoder: VocoderServer) -> None:
    request = window([], 0, 0, last=1)
    vocoder.execute([request])
    chunk = answer(request)
    assert chunk["AUDIO"].shape == (0,) and chunk["IS_LAST"].tolist() == [True]


def test_windows_are_acknowledged_after_their_audio(vocoder: VocoderServer, talker: Acknowledged) -> None:
    request = window([1, 2, 3], 0, 2, chunk=5, address=talker.address)
    vocoder.execute([request])
    done = talker.next()
    assert request.sender.is_final
    assert (done.stream, done.generation, done.chunk, done.ok) == (1, 3, 5, True)


def told_of_a_batch(vocoder: VocoderServer, talker: Acknowledged) -> list[WindowDone | PassBegun]:
    """Of four windows alike, the third being the oldest."""
    vocoder.execute(
        [
            window([1, 2, 3], 0, 2, address=talker.address, stream=stream, sequence=sequence)
            for stream, sequence in enumerate((7, 8, 5, 9))
        ]
    )
    for _ in range(4):
        talker.next()
    return talker.told


def test_windows_that_are_quickly_decoded_are_done_together_and_not_announced(
    vocoder: VocoderServer, talker: Acknowledged
) -> None:
    done = told_of_a_batch(vocoder, talker)
    assert [one.stream for one in done if isinstance(one, WindowDone)] == [0, 1, 2, 3]
    assert all(isinstance(one, WindowDone) and 0 < one.seconds < 0.5 for one in done)


def test_of_windows_that_take_long_each_is_acknowledged_when_it_is_done(
    vocoder: VocoderServer, talker: Acknowledged
) -> None:
    make_slow(vocoder)
    told = told_of_a_batch(vocoder, talker)
    assert [type(one) for one in told] == [PassBegun, WindowDone] * 4
    begun = [one for one in told if isinstance(one, PassBegun)]
    assert {one.oldest for one in begun} == {5}, "of the batch, not of what is left"
    assert begun[0].seconds == pytest.approx(0.3), "of three frames"


def make_slow(vocoder: VocoderServer) -> None:
    vocoder._cost = DecodeCost()
    vocoder._cost.add(1, 10_000, 1000.0)


def test_a_talker_hears_of_its_own_windows_alone(vocoder: VocoderServer, talker: Acknowledged) -> None:
    make_slow(vocoder)
    other = Acknowledged()
    vocoder.execute(
        [
            window([1, 2, 3], 0, 2, address=one.address, stream=stream, sequence=10 * stream)
            for stream, one in enumerate((talker, other), start=1)
        ]
    )
    assert [talker.next().stream, other.next().stream] == [1, 2]
    for one, oldest in ((talker, 10), (other, 20)):
        assert {told.oldest for told in one.told if isinstance(told, PassBegun)} == {oldest}
    other.close()


def test_a_failed_window_is_an_empty_chunk_and_spares_its_neighbour(
    vocoder: VocoderServer, talker: Acknowledged, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(windows: Sequence[CodecWindow], states: Sequence[object | None]) -> list[Decoded]:
        assert all(one.frames.max() < CODES - 1 for one in windows)
        return decode_windows(windows, states)

    decode_windows = vocoder._codec.decode
    monkeypatch.setattr(vocoder._codec, "decode", decode)
    good = window([1, 2, 3], 0, 2, address=talker.address, stream=1)
    bad = window([1, CODES - 1, 3], 0, 2, last=1, address=talker.address, stream=2)
    vocoder.execute([good, bad])
    assert answer(good)["AUDIO"].shape == (2 * HOP,)
    assert answer(bad)["AUDIO"].shape == (0,) and answer(bad)["IS_LAST"].tolist() == [False]
    assert {(done.stream, done.ok) for done in (talker.next(), talker.next())} == {(1, True), (2, False)}
    assert "stream=2" in backend.Logger.errors[0]


@pytest.mark.parametrize(
    ("codes", "what"),
    [
        ([1, CODES, 3], f"FRAMES[1, 0]: {CODES}"),
        ([1, 2, -1], "FRAMES[2, 0]: -1"),
        ([-(2**31), 2, 2**31 - 1], f"FRAMES[0, 0]: {-(2**31)}"),
    ],
)
def test_codes_that_the_codebook_does_not_have_fail_their_window_alone(
    codes: list[int],
    what: str,
    vocoder: VocoderServer,
    talker: Acknowledged,
    backend: FakeBackend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decode(windows: Sequence[CodecWindow], states: Sequence[object | None]) -> Sequence[Decoded]:
        passes.append(len(windows))
        return decode_windows(windows, states)

    passes: list[int] = []
    decode_windows = vocoder._codec.decode
    monkeypatch.setattr(vocoder._codec, "decode", decode)
    every = [0, CODES - 1, 3]
    requests = [
        window(codes if stream == 1 else every, 0, 2, last=1, address=talker.address, stream=stream)
        for stream in range(4)
    ]
    vocoder.execute(requests)
    bad = answer(requests.pop(1))
    assert bad["AUDIO"].shape == (0,) and bad["IS_LAST"].tolist() == [False]
    assert {answer(request)["AUDIO"].shape for request in requests} == {(2 * HOP,)}
    assert sum(passes) == 3, "each neighbour once"
    done = {one.stream: one.ok for one in (talker.next() for _ in range(4))}
    assert done == {0: True, 1: False, 2: True, 3: True}
    [told] = backend.Logger.errors
    assert "stream=1" in told and f"{what} is not accepted; allowed: 0 to {CODES - 1}" in told


def test_a_batch_of_such_windows_alone_decodes_nothing(
    vocoder: VocoderServer, talker: Acknowledged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(type(vocoder._codec), "decode")
    requests = [window([-1, 2], 0, 2, address=talker.address, stream=stream) for stream in range(2)]
    vocoder.execute(requests)
    assert {answer(request)["AUDIO"].shape for request in requests} == {(0,)}
    assert [talker.next().ok for _ in requests] == [False, False]
    assert all(isinstance(one, WindowDone) for one in talker.told), "no pass was begun"


def test_frames_of_other_codebooks_fail_their_window_alone(
    vocoder: VocoderServer, talker: Acknowledged, backend: FakeBackend
) -> None:
    good = window([1, 2, 3], 0, 2, address=talker.address, stream=1)
    bad = window([1, 2, 3], 0, 2, address=talker.address, stream=2)
    bad.inputs["FRAMES"] = np.repeat(bad.inputs["FRAMES"], 3, axis=1)
    vocoder.execute([bad, good])
    assert answer(bad)["AUDIO"].shape == (0,) and answer(good)["AUDIO"].shape == (2 * HOP,)
    assert {(done.stream, done.ok) for done in (talker.next(), talker.next())} == {(1, True), (2, False)}
    assert "FRAMES: [3, 3] is not accepted; allowed: the shape [3, 1]" in backend.Logger.errors[0]


def test_a_window_that_cannot_be_answered_is_not_acknowledged_as_done_and_spares_its_neighbours(
    vocoder: VocoderServer, talker: Acknowledged, backend: FakeBackend
) -> None:
    requests = [window([1, 2, 3], 0, 2, address=talker.address, stream=stream) for stream in range(4)]
    for number, request in enumerate(requests[:3]):
        request.sender.fails_at = frozenset(range(number + 1))
    vocoder.execute(requests)
    empty, failed, closed, whole = requests
    assert answer(empty)["AUDIO"].shape == (0,)
    assert "no shared memory" in str(failed.sender.error) and failed.sender.is_final
    assert closed.sender.is_final and closed.sender.responses == []
    assert answer(whole)["AUDIO"].shape == (2 * HOP,)
    done = {acknowledged.stream: acknowledged.ok for acknowledged in (talker.next() for _ in requests)}
    assert done == {0: False, 1: False, 2: False, 3: True}
    assert "stream=0" in backend.Logger.errors[0]


@pytest.mark.parametrize("missing", ["WINDOW", "FRAMES", "STATS", "WORDS"])
def test_a_window_that_cannot_be_read_is_told_and_spares_its_neighbours(
    missing: str, vocoder: VocoderServer, talker: Acknowledged
) -> None:
    bad = window([1, 2, 3], 0, 2, address=talker.address, stream=1)
    good = window([1, 2, 3], 0, 2, address=talker.address, stream=2)
    del bad.inputs[missing]
    vocoder.execute([bad, good])
    assert missing in str(bad.sender.error) and bad.sender.is_final
    assert answer(good)["AUDIO"].shape == (2 * HOP,)
    told = [talker.next() for _ in range(1 if missing == "WINDOW" else 2)]
    assert {(done.stream, done.ok) for done in told} == {(1, False), (2, True)} - (
        {(1, False)} if missing == "WINDOW" else set()
    )


def test_weights_that_are_not_their_manifest_s(
    backend: FakeBackend, repository: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(repository / "vocoder", tmp_path / "vocoder")) / "1"
    (folder / "codec.safetensors").write_bytes(b"version 1: pointer to a large file")
    with pytest.raises(ArtifactMismatch, match=r"codec.safetensors is not the file .*: make tiny"):
        VocoderServer(backend, ModelConfig(folder, {}, 1))


def test_a_window_whose_predecessor_was_lost_fails_alone(
    vocoder: VocoderServer, talker: Acknowledged, backend: FakeBackend
) -> None:
    lost = window([1, 2, 3, 4], 1, 2, position=2, address=talker.address, stream=1)
    begun = window([1, 2, 3], 0, 2, address=talker.address, stream=2)
    vocoder.execute([lost, begun])
    assert answer(lost)["AUDIO"].shape == (0,) and answer(begun)["AUDIO"].shape == (2 * HOP,)
    assert {(done.stream, done.ok) for done in (talker.next(), talker.next())} == {(1, False), (2, True)}
    assert "the window before position 2" in backend.Logger.errors[0]
