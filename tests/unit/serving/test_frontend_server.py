from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import public_folders
import pytest
from fake_backend import FakeBackend, Request, TritonError, string
from talkahead.config import ModelConfig
from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.registry import family_names
from talkahead.families.table_encoder import EncoderConfig, NamedVoice
from talkahead.families.text_tokens import TOKENIZER
from talkahead.serving.frontend_server import FrontendServer
from talkahead.serving.voices import Voices
from talkahead.speech_format import SpeechFormat
from talkahead.transport.messages import Outlook, StreamProgress, Waits
from talkahead.transport.rendezvous import draining_flag, leaving_flag, rendezvous_folder
from talkahead.transport.senders import ProgressSender
from talkahead.transport.wait_notice import WaitNotice
from talkahead.types import SegmentHeader
from tiny_voice import HOP, RATE_HZ, SPEECH

Ask = Callable[..., Request]

RECORDING = (0.1 * np.random.default_rng(0).standard_normal(2 * RATE_HZ)).clip(-0.9, 0.9).astype(np.float32)
REFERENCE = {"REFERENCE_AUDIO": RECORDING, "REFERENCE_TEXT": string("Nothing but noise.")}


@pytest.fixture
def frontend(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], listening_repository: Path
) -> Iterator[FrontendServer]:
    server = FrontendServer(backend, config_of("frontend", listening_repository))
    yield server
    server.close()


@pytest.fixture
def ask(frontend: FrontendServer) -> Ask:
    """Sends one request and waits for its end."""

    def send(text: str | bytes, *, options: dict[str, object] | None = None, **inputs: object) -> Request:
        done = threading.Event()
        request = Request({"TEXT": string(text), **inputs}, json.dumps(options or {}))
        send_one = request.sender.send

        def send_and_tell(response: object = None, flags: int = 0) -> None:
            send_one(response, flags)
            if flags:
                done.set()

        request.sender.send = send_and_tell
        frontend.execute([request])
        assert done.wait(10)
        return request

    return send


def headers(request: Request) -> list[SegmentHeader]:
    return [SegmentHeader.from_array(response.tensors["SEGMENT"][0]) for response in request.sender.responses]


def test_each_sentence_is_a_segment(ask: Ask) -> None:
    text = "The juice of lemons makes fine punch. Open the crate!"
    request = ask(text, options={"seed": 7}, VOICE=string("rms"))
    first, second = headers(request)
    assert (first.segment, first.last, second.segment, second.last) == (0, 0, 1, 1)
    assert first.stream == second.stream > 0 and first.seed == second.seed == 7
    assert first.char_start == 0 and second.char_end == len(text)
    tensors = request.sender.responses[0].tensors
    assert tensors["SYMBOLS"].dtype == np.int32 and tensors["SYMBOLS"].shape[::2] == (1, 4)
    assert first.voice == second.voice == 1 and tensors["REFERENCE"].shape == (1, 0)
    assert request.sender.is_final and request.sender.error is None


def test_streams_and_seeds_differ(ask: Ask) -> None:
    (one,), (other,) = headers(ask("Hello.")), headers(ask("Hello."))
    assert one.stream != other.stream and one.seed != other.seed


@pytest.mark.parametrize(
    ("text", "inputs", "options", "sentence"),
    [
        ("", {}, {}, "TEXT: '' is not accepted; allowed: 1 to 20,000 characters"),
        ("a" * 20_001, {}, {}, "allowed: 1 to 20,000 characters"),
        (" \n\t ", {}, {}, "TEXT"),
        (b"\xff\xfe", {}, {}, "allowed: UTF-8 (byte 0 is not)"),
        ("...!", {}, {}, "TEXT"),
        ("Hi.", {"VOICE": string("bob")}, {}, "VOICE: 'bob' is not accepted; allowed: slt, rms"),
        ("Hi.", {"REFERENCE_AUDIO": RECORDING}, {}, "REFERENCE_TEXT: None is not accepted; allowed: what is"),
        (
            "Hi.",
            {"REFERENCE_TEXT": string("hm")},
            {},
            "REFERENCE_AUDIO: None is not accepted; allowed: a rec",
        ),
        (
            "Hi.",
            {**REFERENCE, "VOICE": string("slt")},
            {},
            "VOICE: 'slt' is not accepted; allowed: nothing be",
        ),
        ("Hi.", {**REFERENCE, "REFERENCE_TEXT": string("?!")}, {}, "REFERENCE_TEXT: '?!' is not accepted"),
        (
            "Hi.",
            {},
            {"temperature": "nan"},
            "temperature: 'nan' is not accepted; allowed: a number from 0 to 2",
        ),
        ("Hi.", {}, {"drafter": "heads"}, "drafter: 'heads' is not accepted; allowed: none"),
        ("Hi.", {}, {"verifier": "ratio"}, "verifier: 'ratio' is not accepted; allowed: match"),
        ("Hi.", {}, {"tolerance": 99}, "tolerance: 99 is not accepted; allowed: a whole number from 1 to 16"),
        ("Hi.", {}, {"pitch": 2}, "request parameter: 'pitch' is not accepted; allowed: bias"),
        ("Hi.", {}, {"speed": 2}, "speed: 2 is not accepted; allowed: a number from 0.7 to 1.4 (1 = as"),
    ],
)
def test_bad_requests_are_refused(
    ask: Ask, text: str | bytes, inputs: dict[str, object], options: dict[str, object], sentence: str
) -> None:
    request = ask(text, options=options, **inputs)
    error = request.sender.error
    assert len(request.sender.sent) == 1 and request.sender.is_final and error is not None
    assert error.code == TritonError.INVALID_ARG and str(error).startswith("INVALID_ARGUMENT: ")
    assert sentence in str(error)


def test_refusals_are_counted_by_code(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], listening_repository: Path
) -> None:
    server = FrontendServer(backend, config_of("frontend", listening_repository))
    for text, options in (("Hi.", {"tolerance": 99}), ("...!", {}), ("Hi.", {})):
        request = Request({"TEXT": string(text)}, json.dumps(options))
        server.execute([request])
        assert request.sender.ended.wait(10)
    server.close()
    refused = backend.metrics.by_labels("talkahead_refused_requests_total")
    assert refused.pop("INVALID_ARGUMENT")[-1] == 2 and not any(refused.values())


def test_a_server_with_drafts_says_which_values_it_takes(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], drafting_repository: Path
) -> None:
    server = FrontendServer(backend, config_of("frontend", drafting_repository))
    told = []
    for options in (
        {"drafter": "heads", "nodes": 8, "pin_draft": True},
        {"verifier": "groups", "similarity": 0.3},
        {"drafter": "heads", "nodes": 9},
        {"drafter": "mtp", "draft_length": 3},
        {"verifier": "groups", "similarity": 0.7},
    ):
        request = Request({"TEXT": string("Hi.")}, json.dumps(options))
        server.execute([request])
        assert request.sender.ended.wait(10)
        told.append(str(request.sender.error))
    server.close()
    assert told[:2] == ["None", "None"]
    assert "nodes: 9 is not accepted; allowed: a whole number from 4 to 8 with drafter heads" in told[2]
    assert "draft_length: 3 is not accepted; allowed: a whole number from 1 to 2 with drafter mtp" in told[3]
    assert "similarity: 0.7 is not accepted; allowed: 0.5, 0.3" in told[4]


def test_a_codec_with_one_pace_refuses_another(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], listening_repository: Path, tmp_path: Path
) -> None:
    repository = shutil.copytree(listening_repository, tmp_path / "models")
    replace(SPEECH, is_elastic=False).save(repository / "vocoder" / "1")
    server = FrontendServer(backend, config_of("frontend", repository))
    told = []
    for speed in (1.0, 1.1):
        request = Request({"TEXT": string("Hi.")}, json.dumps({"speed": speed}))
        server.execute([request])
        assert request.sender.ended.wait(10)
        told.append(str(request.sender.error))
    server.close()
    assert told[0] == "None" and "speed: 1.1 is not accepted; allowed: 1, for the codec" in told[1]


def test_a_draining_server_refuses(ask: Ask) -> None:
    draining_flag(rendezvous_folder()).touch()
    error = ask("Hello.").sender.error
    assert error is not None and error.code == TritonError.UNAVAILABLE


def test_who_would_wait_too_long_is_told_so_by_the_talkers_notice(ask: Ask) -> None:
    notice, told = WaitNotice(), (Outlook(), Outlook(10, 0.25, 0.0, 2.0), Outlook(6, 0.25, 0.0, 1.0))
    notice.tell(Waits(0, told))
    error = ask("Hello.").sender.error
    assert error is not None and "try again in about 500 ms" in str(error)
    assert ask("Hello.", options={"urgency": 1}).sender.error is None
    notice.tell(Waits(1, (Outlook(), Outlook(), told[-1])))
    assert ask("Hello.").sender.error is None
    assert ask("Hello.", options={"urgency": 3}).sender.error is not None
    notice.close()
    assert ask("Hello.", options={"urgency": 3}).sender.error is None


def test_of_many_at_once_so_many_are_let_in_as_there_is_room_for(ask: Ask) -> None:
    """The talker has heard of none of them; who is refused for another reason takes no room."""
    notice, room = WaitNotice(), Outlook(-1, 0.25, 0.1, 1.0)
    notice.tell(Waits(100, (Outlook(), room, room)))
    assert ask("Hello.", options={"drafter": "nobody"}).sender.error is not None
    spoken = [ask("Hello.").sender.error is None for _ in range(7)]
    assert spoken == [True] * 5 + [False] * 2  # two have a slot, three wait for at most 850 ms
    notice.tell(Waits(102, (Outlook(), room, room)))
    assert [ask("Hello.").sender.error is None for _ in range(3)] == [True, True, False]


def test_a_server_that_will_drain_refuses_health_checks_alone(ask: Ask) -> None:
    check = {"health_check": True}
    assert ask("Hello.", options=check).sender.error is None
    leaving_flag(rendezvous_folder()).touch()
    error = ask("Hello.", options=check).sender.error
    assert error is not None and error.code == TritonError.UNAVAILABLE
    assert ask("Hello.").sender.error is None


def test_a_health_check_of_a_server_without_voices_says_that_it_is_well(
    frontend: FrontendServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontend, "_voices", Voices(()))
    asked, checked = (
        str(ask("Hello.", options=options).sender.error) for options in ({}, {"health_check": True})
    )
    assert "IS_LAST" not in asked
    assert checked == f"{asked} (well, without IS_LAST)"


def test_a_failure_after_the_first_segment_is_left_to_the_talker(
    frontend: FrontendServer, backend: FakeBackend, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(text: str, said: str | None, *, is_fixed: bool) -> Iterator[object]:
        yield from list(frontend_segments(text, said))[:2]
        raise RuntimeError("lexicon gone")

    frontend_segments = frontend._text.segments
    monkeypatch.setattr(frontend._text, "segments", breaks)
    request = ask("One. Two. Three.")
    assert request.sender.error is None and request.sender.is_final
    *_, broken = headers(request)
    assert broken.last == 1 and (request.sender.responses[-1].tensors["SYMBOLS"] == -1).all()
    assert [after.segment - before.segment for before, after in pairwise(headers(request))] == [1]
    assert "lexicon gone" in backend.Logger.errors[0]


@pytest.mark.parametrize(
    ("fails_at", "sentence"),
    [
        ({0}, "INTERNAL: MemoryError: no shared memory"),
        ({0, 1}, None),
        ({1}, None),
        ({2}, None),
        ({1, 2}, "INTERNAL: MemoryError: no shared memory"),
        ({3}, None),
    ],
    ids=["first", "its error", "second", "last", "what breaks off", "end"],
)
def test_a_segment_that_cannot_be_sent_ends_its_stream_and_spares_its_neighbours(
    frontend: FrontendServer, backend: FakeBackend, ask: Ask, fails_at: set[int], sentence: str | None
) -> None:
    broken = Request({"TEXT": string("One. Two. Three.")})
    broken.sender.fails_at = frozenset(fails_at)
    frontend.execute([broken])
    assert broken.sender.ended.wait(10)
    assert "no shared memory" in backend.Logger.errors[0] and "stream " in backend.Logger.errors[0]
    assert (str(broken.sender.error) if broken.sender.error else None) == sentence
    if fails_at in ({1}, {2}):  # the talker is told
        *_, last = headers(broken)
        assert last.last == 1 and (broken.sender.responses[-1].tensors["SYMBOLS"] == -1).all()
    assert [header.last for header in headers(ask("Four. Five."))] == [0, 1]


def spoken_in_turn(frontend: FrontendServer, text: str, over_after: int = -1) -> tuple[Request, int]:
    """The request for a text whose segments are spoken as they come, and the most that were ahead.

    After `over_after` segments the talker is done with the stream.
    """
    talker, request, spoken = ProgressSender(), Request({"TEXT": string(text)}), 0
    arrivals: SimpleQueue[int] = SimpleQueue()
    leads: list[int] = []
    send_one = request.sender.send

    def send(response: object = None, flags: int = 0) -> None:
        send_one(response, flags)
        leads.append(len(request.sender.responses) - spoken)
        arrivals.put(flags)

    request.sender.send = send
    frontend.execute([request])
    while arrivals.get(timeout=20) == 0:
        header = headers(request)[0]
        talker.send(header.frontend, StreamProgress(header.stream, spoken, spoken == over_after))
        spoken += 1
    talker.close()
    return request, max(leads)


def test_segments_leave_as_the_talker_goes_on(frontend: FrontendServer) -> None:
    request, lead = spoken_in_turn(frontend, "Hello there. " * 40)
    assert lead <= 8
    assert [header.segment for header in headers(request)] == list(range(40))
    assert [header.last for header in headers(request)] == [0] * 39 + [1]


def test_a_stream_that_is_over_is_closed_by_one_segment(frontend: FrontendServer) -> None:
    request, _ = spoken_in_turn(frontend, "Hello there. " * 1_000, over_after=3)
    *_, closing = headers(request)
    assert closing.last == 1 and closing.segment <= 12
    assert not request.sender.responses[-1].tensors["SYMBOLS"].any()
    assert [header.segment for header in headers(request)] == list(range(closing.segment + 1))
    assert [header.last for header in headers(request)][:-1] == [0] * closing.segment


def test_a_short_text_overtakes_a_long_one(frontend: FrontendServer) -> None:
    """Segments leave by turns: the short text's only one long before the long text's last."""
    order: list[str] = []
    ended = threading.Semaphore(0)

    def request(name: str, text: str) -> Request:
        def note(response: object = None, flags: int = 0) -> None:
            order.append(name)
            if flags:
                ended.release()

        request = Request({"TEXT": string(text)})
        request.sender.send = note
        return request

    frontend.execute([request("long", "Hello there. " * 300), request("short", "Hi.")])
    for _ in range(2):
        assert ended.acquire(timeout=20)
    assert order.index("short") < 200 and order.count("long") == 301


def test_pauses_are_asked_for_by_punctuation(ask: Ask) -> None:
    """0.35 s after a sentence, 0.6 s after a paragraph."""
    request = ask("One, two. Three!\n\nFour.")
    assert [header.pause_frames for header in headers(request)] == [
        SPEECH.frames(0.35),
        SPEECH.frames(0.6),
        0,
    ]


def test_a_reference_is_sent_once_and_its_words_go_before_each_segment(ask: Ask) -> None:
    request, plain = ask("One. Two.", **REFERENCE), ask("One. Two.")
    first, second = request.sender.responses
    edges_s = 0.01 + 0.1  # before and after
    assert first.tensors["REFERENCE"].shape == (1, int((2 + edges_s) * SPEECH.frames_per_s) * HOP)
    assert second.tensors["REFERENCE"].shape == (1, 0)
    assert len({header.reference for header in headers(request)} | {0}) == 2
    assert {header.voice for header in headers(request)} == {2}
    assert {header.voice for header in headers(plain)} == {0}
    for prompted, named in zip(request.sender.responses, plain.sender.responses, strict=True):
        symbols = named.tensors["SYMBOLS"][0]
        np.testing.assert_array_equal(prompted.tensors["SYMBOLS"][0, -len(symbols) :], symbols)
    lengths = [
        len(one.tensors["SYMBOLS"][0]) - len(other.tensors["SYMBOLS"][0])
        for one, other in zip(request.sender.responses, plain.sender.responses, strict=True)
    ]
    assert lengths[0] == lengths[1] > 10
    assert {header.reference for header in headers(plain)} == {0}


@pytest.fixture(scope="module", params=family_names())
def family_repository(
    request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What a frontend reads, of each family."""
    if request.param == "phonemic":
        return repository
    folder = tmp_path_factory.mktemp(request.param)
    frontend, encoder, vocoder = (folder / name / "1" for name in ("frontend", "encoder", "vocoder"))
    for version in (frontend, encoder, vocoder):
        version.mkdir(parents=True)
    tokenizer = getattr(public_folders, f"{request.param}_tokenizer")(public_folders.CODES)
    tokenizer.backend_tokenizer.save(str(frontend / TOKENIZER))
    FrontendConfig().save(frontend)
    EncoderConfig(first_speech=0, codebooks=(32,), voices=(NamedVoice("tara"),)).save(encoder)
    replace(SpeechFormat.read(repository / "vocoder" / "1"), family=request.param).save(vocoder)
    return folder


def test_its_process_does_without_torch(family_repository: Path) -> None:
    """Which would take it half a second and 200 MB."""
    program = """
import sys
from pathlib import Path
import talkahead.serving.frontend_server
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat
frontend, encoder, vocoder = (Path(sys.argv[1], name, "1") for name in ("frontend", "encoder", "vocoder"))
speech = SpeechFormat.read(vocoder)
family = load_family(speech.family)
family.voices(encoder)
list(family.frontend(frontend, speech).segments("Hello.", "Hi."))
sys.exit("torch" in sys.modules)
"""
    command = [sys.executable, "-c", program, str(family_repository)]
    assert subprocess.run(command, check=False).returncode == 0
