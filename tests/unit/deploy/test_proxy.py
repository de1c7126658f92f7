"""The real haproxy and Envoy, with deploy's configurations, before two processes that act as replicas."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from certificates import Certificate, make_root, make_signed, mounted
from charts_envoy import envoy_by_tls
from fake_replica import DRAINS, HESITATES, SPEAKS, STAYS_SILENT, WELL, FakeReplica
from talkahead.errors import BadRequest, Code, DeadlinePassed, TalkaheadError, answer_to_check
from talkahead_client import AudioChunk, Client, ServerUnavailable, Speech, StreamBroken, tls_credentials

from deploy.chart import RELEASE
from instruments.proxy import Kind, Proxy, proxy_before

KINDS = [pytest.param(kind, marks=pytest.mark.needs(str(kind)), id=str(kind)) for kind in Kind]

LIMIT_S = 2.0
"""Within which everybody must know that a replica is gone."""


@dataclass(frozen=True)
class House:
    """Two replicas behind a proxy, and a client of that."""

    replicas: tuple[FakeReplica, FakeReplica]
    client: Client
    proxy: Proxy

    def open(self, count: int) -> list[tuple[int, Speech]]:
        """Streams that have spoken their first chunk, and the number of the replica that speaks each."""
        speeches = [self.client.speak(HESITATES) for _ in range(count)]
        return [(spoken_by(next(speech)), speech) for speech in speeches]

    def share(self, count: int) -> dict[int, int]:
        """How many more streams each replica is given; they are ended then."""
        opened = self.open(count)
        for _, speech in opened:
            speech.close()
        return dict(Counter(number for number, _ in opened))

    def await_cancel(self, speech: Speech) -> None:
        """Until a cancel meets the stream, which may still be on its way."""
        ends = time.monotonic() + 10
        while self.client.cancel(request_id=speech.request_id) == 0:
            assert time.monotonic() < ends, "no replica has the stream"
            time.sleep(0.02)

    def await_up(self, first: bool, second: bool) -> None:
        """Until the proxy sends new streams to these alone."""
        ends = time.monotonic() + 10
        while (are_up := self.proxy.are_up()) != (first, second):
            assert time.monotonic() < ends, are_up
            time.sleep(0.02)


def spoken_by(chunk: AudioChunk) -> int:
    return chunk.stats.drafted


@pytest.fixture(params=KINDS)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(FakeReplica(number, tmp_path)) for number in (1, 2))
        replicas = (first.addresses, second.addresses)
        proxy = stack.enter_context(proxy_before(replicas, tmp_path, request.param))
        house = House((first, second), stack.enter_context(Client(proxy.address)), proxy)
        house.await_up(True, True)
        house.share(6)  # a proxy that is still connecting counts nowhere what comes meanwhile
        yield house


def test_streams_of_one_connection_go_where_fewest_are(house: House) -> None:
    opened = house.open(20)
    assert Counter(number for number, _ in opened) == {1: 10, 2: 10}
    for number, speech in opened:
        if number == 1:
            speech.close()
    before = house.proxy.requests()
    assert house.share(10) == {1: 10}
    after = house.proxy.requests()
    # Each was cancelled as well.
    assert (after[0] - before[0], after[1] - before[1]) == (20, 0)


def test_who_leaves_is_heard_by_the_replica_that_speaks(house: House) -> None:
    opened = house.open(6)
    before = house.proxy.requests()
    for _, speech in opened:
        speech.close()
    after = house.proxy.requests()
    # A cancel that meets nothing would be sent again.
    assert (after[0] - before[0], after[1] - before[1]) == (3, 3)


@pytest.mark.parametrize("house", [KINDS[0]], indirect=True)
def test_to_haproxy_any_clients_cancel_is_about_a_replicas_stream(house: House) -> None:
    for number, speech in house.open(6):
        assert house.client.cancel(request_id=speech.request_id) == 1, number


def test_who_has_spoken_is_cut_and_who_has_not_is_spoken_elsewhere(house: House) -> None:
    opened = house.open(6)
    silent = [house.client.speak(STAYS_SILENT) for _ in range(4)]
    house.replicas[0].kill()
    began = time.monotonic()
    for number, speech in opened:
        if number == 1:
            with pytest.raises(StreamBroken, match="while it spoke"):
                next(speech)
    assert time.monotonic() - began < LIMIT_S
    assert house.share(3) == {2: 3}
    for number, speech in opened:
        if number == 2:
            assert house.client.cancel(request_id=speech.request_id) == 1
    # Of those that were silent at the one that died, the proxy asks the other.
    for speech in silent:
        house.await_cancel(speech)


def test_a_replica_that_comes_back_gets_streams_again(house: House) -> None:
    house.replicas[0].kill()
    house.await_up(False, True)
    opened = house.open(2)
    assert [number for number, _ in opened] == [2, 2]
    house.replicas[0].start()
    house.await_up(True, True)
    assert house.share(4) == {1: 3, 2: 1}


def test_one_that_drains_gets_none_and_keeps_those_that_it_has(house: House) -> None:
    opened = house.open(4)
    house.replicas[0].answer(DRAINS)
    house.await_up(False, True)
    assert house.share(3) == {2: 3}
    before = house.proxy.requests()
    for _, speech in opened:
        speech.close()
    after = house.proxy.requests()
    assert (after[0] - before[0], after[1] - before[1]) == (2, 2)
    house.replicas[0].answer(WELL)
    house.await_up(True, True)


@pytest.mark.parametrize(
    "refusal",
    [
        TalkaheadError("64 wait", Code.RESOURCE_EXHAUSTED),
        BadRequest("VOICE", None, "a recording"),
        DeadlinePassed(1100),
    ],
    ids=lambda one: type(one).__name__,
)
def test_one_that_refuses_is_well(house: House, refusal: TalkaheadError) -> None:
    house.replicas[1].answer('{"error":"no"}')
    house.replicas[0].answer(f'{{"error":"{refusal.code}: {answer_to_check(refusal)}"}}')
    house.await_up(True, False)
    assert house.share(3) == {1: 3}


def test_with_nobody_left_a_client_is_told_so_and_may_wait_for_one(house: House) -> None:
    for replica in house.replicas:
        replica.kill()
    house.await_up(False, False)
    with pytest.raises(ServerUnavailable):
        next(house.client.speak(SPEAKS))
    waiting = house.client.speak(SPEAKS, retries=100)
    house.replicas[0].start()
    assert [spoken_by(chunk) for chunk in waiting] == [1, 1]


@dataclass(frozen=True)
class LockedHouse:
    """Two replicas that speak mutual TLS alone, the chart's proxy before them, and who has signed whom.

    Args:
        ours, strangers: clients with a certificate that the proxy takes, and with one that it does not.
    """

    replicas: tuple[FakeReplica, FakeReplica]
    proxy: Proxy
    root: Certificate
    ours: Certificate
    strangers: Certificate

    def client(self, guest: Certificate | None) -> Client:
        """A client with that certificate."""
        mine = () if guest is None else (guest.certificate, guest.key)
        return Client(self.proxy.address, tls_credentials(self.root.certificate, *mine))

    def speak(self, guest: Certificate | None) -> int:
        """The number of the replica that a client with that certificate hears."""
        with self.client(guest) as client:
            return spoken_by(next(client.speak(SPEAKS)))


def lock(folder: Path, stack: contextlib.ExitStack, host: str) -> LockedHouse:
    """The replicas' certificates are for `host`."""
    root, other = make_root(folder), make_root(folder, "other")
    theirs = mounted(folder / "replicas", make_signed(folder, "replica", root, host), root)
    its = mounted(folder / "proxy", make_signed(folder, "envoy", root), root)
    first, second = (stack.enter_context(FakeReplica(number, folder, theirs)) for number in (1, 2))
    config = envoy_by_tls(its)
    proxy = stack.enter_context(proxy_before((first.addresses, second.addresses), folder, Kind.ENVOY, config))
    ours, strangers = make_signed(folder, "ours", root), make_signed(folder, "strangers", other)
    return LockedHouse((first, second), proxy, root, ours, strangers)


def await_health(proxy: Proxy, first: bool, second: bool) -> None:
    ends = time.monotonic() + 10
    while (are_up := proxy.are_up()) != (first, second):
        assert time.monotonic() < ends, are_up
        time.sleep(0.02)


@pytest.mark.needs("envoy", "openssl")
def test_by_mutual_tls_the_charts_proxy_serves_those_it_knows_and_checks_replicas(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        house = lock(tmp_path, stack, f"{RELEASE}-grpc")
        await_health(house.proxy, True, True)
        with house.client(house.ours) as client:
            # Of two without streams either may be given the next, so the first stays open.
            held = client.speak(HESITATES)
            assert {spoken_by(next(held)), house.speak(house.ours)} == {1, 2}
            held.close()
        for guest in (None, house.strangers):
            with pytest.raises(ServerUnavailable):
                house.speak(guest)
        with Client(house.proxy.address) as client, pytest.raises(ServerUnavailable):
            next(client.speak(SPEAKS))
        house.replicas[0].answer(DRAINS)
        await_health(house.proxy, False, True)
        assert {house.speak(house.ours) for _ in range(4)} == {2}


@pytest.mark.needs("envoy", "openssl")
def test_a_replica_with_a_certificate_of_another_name_gets_no_streams(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        house = lock(tmp_path, stack, "somebody-else")
        await_health(house.proxy, False, False)
        with pytest.raises(ServerUnavailable):
            house.speak(house.ours)
