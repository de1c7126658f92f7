"""Datagrams survive the way, and neither side waits for the other."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest
from talkahead.config import SOCKET_DIR
from talkahead.errors import TalkaheadError
from talkahead.launcher.doctor import _TEMPORARY_CHARACTERS
from talkahead.transport.control_client import ControlClient
from talkahead.transport.messages import (
    CancelReport,
    CancelRequest,
    Datagram,
    LoadReport,
    LoadRequest,
    PassBegun,
    StreamProgress,
    WindowDone,
    decode,
    encode,
)
from talkahead.transport.receivers import AcknowledgementReceiver, ProgressReceiver
from talkahead.transport.rendezvous import rendezvous_folder
from talkahead.transport.senders import AcknowledgementSender, ProgressSender

LARGE = 2**63 - 1
MESSAGES: list[Datagram] = [
    WindowDone(LARGE, 17, 3, ok=True),
    WindowDone(0, LARGE, 0, ok=False, seconds=1.25),
    PassBegun(LARGE, 0.1),
    StreamProgress(LARGE, 7),
    StreamProgress(0, 0, is_over=True),
    CancelRequest(stream=LARGE, reply_to="/somewhere"),
    CancelRequest(request_id="a ü 漢", reply_to="/somewhere"),
    CancelReport(3),
    LoadRequest("/somewhere"),
    LoadReport(1, 2, 3, 32, 41.5, 7),
]


class Listener:
    def __init__(self) -> None:
        self.done: list[WindowDone] = []
        self.begun: list[PassBegun] = []
        self.cancelled: list[tuple[int | None, str | None]] = []

    def acknowledge(self, done: WindowDone) -> None:
        self.done.append(done)

    def expect(self, begun: PassBegun) -> None:
        self.begun.append(begun)

    def cancel(self, stream: int | None, request_id: str | None) -> int:
        self.cancelled.append((stream, request_id))
        return 2

    def load(self) -> LoadReport:
        return LoadReport(1, 0, 1, 8, 30.0)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_survive_the_way(message: Datagram) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize("data", [b"W", b"Wxyz", b"{}", b"[]", b'{"kind": "Nobody"}', b"\xff\xfe", b"null"])
def test_anything_else_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_acknowledgements_arrive_in_order_and_noise_is_counted(tmp_path: Path) -> None:
    receiver, listener, sender = (
        AcknowledgementReceiver(tmp_path),
        Listener(),
        AcknowledgementSender(tmp_path),
    )
    sent = [WindowDone(7, 1, chunk) for chunk in range(500)]
    for done in sent:  # far more than the kernel queues, and nobody reads yet
        sender.send(receiver.address, done)
    sender.send(receiver.address, PassBegun(500, 0.5))
    receiver.start(listener)
    sender.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        (path,) = tmp_path.glob("talker-*.sock")
        stranger.sendto(b"noise", str(path))
    receiver.close()  # reads what is queued before the stop
    assert listener.done == sent and listener.begun == [PassBegun(500, 0.5)]
    assert receiver.malformed == 1
    assert sender.lost == 0
    assert not list(tmp_path.iterdir())


def test_progress_reaches_its_frontend_alone(tmp_path: Path) -> None:
    heard: list[list[StreamProgress]] = [[], []]
    receivers = [ProgressReceiver(tmp_path) for _ in heard]
    for receiver, told in zip(receivers, heard, strict=True):
        receiver.start(told.append)
    sender = ProgressSender(tmp_path)
    sent = [StreamProgress(7, spoken) for spoken in range(50)]
    for progress in sent:
        sender.send(receivers[1].address, progress)
    sender.send(receivers[1].address, WindowDone(7, 1, 0))
    sender.close()
    for receiver in receivers:
        receiver.close()
    assert heard == [[], sent]
    assert [receiver.malformed for receiver in receivers] == [0, 1]
    assert not list(tmp_path.iterdir())


def test_the_sender_never_waits(tmp_path: Path) -> None:
    receiver, sender = AcknowledgementReceiver(tmp_path), AcknowledgementSender(tmp_path)
    for chunk in range(20_000):  # nobody reads
        sender.send(receiver.address, WindowDone(1, 1, chunk))
    assert 0 < sender.lost < 20_000
    receiver.close()
    sender.close()


def test_a_talker_that_has_died_is_counted_and_address_zero_is_not(tmp_path: Path) -> None:
    sender = AcknowledgementSender(tmp_path)
    sender.send(77, WindowDone(1, 1, 0))
    sender.send(0, WindowDone(1, 1, 1))
    sender.close()
    assert sender.lost == 1


def test_control_asks_every_living_talker(tmp_path: Path) -> None:
    receivers = [AcknowledgementReceiver(tmp_path) for _ in range(2)]
    listeners = [Listener(), Listener()]
    for receiver, listener in zip(receivers, listeners, strict=True):
        receiver.start(listener)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(tmp_path / "talker-1.sock"))
    control = ControlClient(tmp_path)
    assert control.cancel(stream=5) == 4
    assert control.cancel(request_id="mine") == 4
    assert [listener.cancelled for listener in listeners] == [[(5, None), (None, "mine")]] * 2
    assert [report.slots for report in control.load()] == [8, 8]
    with pytest.raises(TalkaheadError):
        control.cancel()
    for receiver in receivers:
        receiver.close()
    assert [path.name for path in tmp_path.iterdir()] == ["talker-1.sock"]


def test_control_without_a_talker_finds_nobody(tmp_path: Path) -> None:
    assert ControlClient(tmp_path).load() == []


def test_models_meet_in_the_launcher_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET_DIR, str(tmp_path))
    assert rendezvous_folder() == tmp_path
    receiver = AcknowledgementReceiver()
    assert [path.parent for path in tmp_path.glob("talker-*.sock")] == [tmp_path]
    receiver.close()


def test_without_a_launcher_models_meet_in_a_folder_of_their_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = rendezvous_folder()
    assert folder == tmp_path / f"talkahead-{os.getppid()}" == rendezvous_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_models_refuse_to_meet_where_others_may_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"talkahead-{os.getppid()}").mkdir(mode=0o755)
    for socket_of in (AcknowledgementReceiver, AcknowledgementSender, ControlClient):
        with pytest.raises(TalkaheadError, match=r"cannot meet: .*open to others \(mode 755\); .* TMPDIR"):
            socket_of()


def test_a_socket_of_the_longest_name_fits_where_the_doctor_says_so() -> None:
    with tempfile.TemporaryDirectory() as short:
        temporary = Path(short) / ("x" * (_TEMPORARY_CHARACTERS - len(short) - 1))
        temporary.mkdir()
        folder = Path(tempfile.mkdtemp(prefix="talkahead-", dir=temporary))
        assert len(str(temporary)) == _TEMPORARY_CHARACTERS
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as longest:
            longest.bind(str(folder / f"frontend-{2**62 - 1}.sock"))
