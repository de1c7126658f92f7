"""Who is let in by TLS, and what of Triton is closed to everybody."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from certificates import Certificate, make_root, make_signed, mounted
from charts_envoy import REPLICAS, envoy_by_tls
from hearing import speak
from served import Served, served
from talkahead.launcher.addresses import Addresses
from talkahead_client import Client, ServerUnavailable, tls_credentials
from talkahead_client.say import main as say
from texts import SENTENCES
from tritonclient.grpc import service_pb2, service_pb2_grpc
from waiting import eventually

from instruments.proxy import Kind, proxy_before

OPTIONS: dict[str, Any] = {"max_seconds": 0.5}
CLOSED: tuple[tuple[str, Any], ...] = (
    ("SystemSharedMemoryStatus", service_pb2.SystemSharedMemoryStatusRequest()),
    (
        "SystemSharedMemoryRegister",
        service_pb2.SystemSharedMemoryRegisterRequest(name="x", key="/x", byte_size=1),
    ),
    ("CudaSharedMemoryStatus", service_pb2.CudaSharedMemoryStatusRequest()),
    ("TraceSetting", service_pb2.TraceSettingRequest()),
    ("LogSettings", service_pb2.LogSettingsRequest()),
)
CLOSED_PAGES = (
    "v2/systemsharedmemory/status",
    "v2/cudasharedmemory/status",
    "v2/trace/setting",
    "v2/logging",
)


@dataclass(frozen=True)
class House:
    """A server that takes clients with a certificate alone."""

    server: Served
    root: Certificate
    ours: Certificate
    strangers: Certificate


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder: Path = tmp_path_factory.mktemp("certificates")
    root, other = make_root(folder), make_root(folder, "other")
    server, ours = make_signed(folder, "server", root, REPLICAS), make_signed(folder, "ours", root)
    strangers = make_signed(folder, "strangers", other)
    files = {"certificate": server.certificate, "key": server.key, "client-ca": root.certificate}
    given = [f"--tls-{name}={path}" for name, path in files.items()]
    with served("--exit-timeout", "1", *given) as running:
        yield House(running, root, ours, strangers)


@pytest.mark.needs("openssl")
def test_a_client_with_a_certificate_is_served(house: House) -> None:
    credentials = tls_credentials(house.root.certificate, house.ours.certificate, house.ours.key)
    with Client(house.server.grpc, credentials) as client:
        assert len(speak(client, SENTENCES[0], **OPTIONS).audio)
        assert client.load().details["open_streams"] == 0


@pytest.mark.needs("openssl")
def test_so_is_the_command(house: House, tmp_path: Path) -> None:
    files = {"ca": house.root.certificate, "certificate": house.ours.certificate, "key": house.ours.key}
    given = [f"--tls-{name}={path}" for name, path in files.items()]
    wave = tmp_path / "spoken.wav"
    assert say(["--server", house.server.grpc, *given, "--max-seconds", "0.5", "-o", str(wave), "Hi."]) == 0
    assert wave.stat().st_size > 1_000


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("who", ["plain text", "no certificate", "a stranger's", "distrusts the server"])
def test_nobody_else_is(house: House, who: str) -> None:
    root, strangers = house.root.certificate, house.strangers
    credentials: dict[str, Callable[[], grpc.ChannelCredentials | None]] = {
        "plain text": lambda: None,
        "no certificate": lambda: tls_credentials(root),
        "a stranger's": lambda: tls_credentials(root, strangers.certificate, strangers.key),
        "distrusts the server": lambda: tls_credentials(
            strangers.certificate, house.ours.certificate, house.ours.key
        ),
    }
    with Client(house.server.grpc, credentials[who]()) as client, pytest.raises(ServerUnavailable):
        speak(client, SENTENCES[0], **OPTIONS)


@pytest.mark.needs("envoy", "openssl")
def test_the_charts_proxy_hears_it_speak_and_lets_the_same_clients_in(house: House, tmp_path: Path) -> None:
    config = envoy_by_tls(mounted(tmp_path / "secret", house.ours, house.root))
    nobody = Addresses.choose("127.0.0.1")
    there = (house.server.grpc, house.server.http)
    replicas = (there, (f"{nobody.host}:{nobody.grpc}", f"{nobody.host}:{nobody.http}"))
    mine = tls_credentials(house.root.certificate, house.ours.certificate, house.ours.key)
    with proxy_before(replicas, tmp_path, Kind.ENVOY, config) as proxy:
        eventually(proxy.are_up, lambda are_up: are_up == (True, False))
        with Client(proxy.address, mine) as client:
            assert len(speak(client, SENTENCES[0], **OPTIONS).audio)
        with (
            Client(proxy.address, tls_credentials(house.root.certificate)) as client,
            pytest.raises(ServerUnavailable),
        ):
            speak(client, SENTENCES[0], **OPTIONS)


@pytest.mark.parametrize(("method", "request_"), CLOSED, ids=[method for method, _ in CLOSED])
def test_triton_is_closed_where_a_client_could_do_harm(server: Served, method: str, request_: object) -> None:
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
        getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), method)(request_, timeout=10)
    assert "restricted" in refused.value.details()


@pytest.mark.parametrize("page", CLOSED_PAGES)
def test_its_pages_are_as_well(server: Served, page: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{server.http}/{page}", timeout=10)
    with refused.value:
        assert refused.value.code == 403


@pytest.mark.parametrize("method", ["RepositoryModelLoad", "RepositoryModelUnload"])
def test_nobody_changes_the_models(server: Served, client: Client, method: str) -> None:
    request = getattr(service_pb2, f"{method}Request")(model_name="vocoder")
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError):
        getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), method)(request, timeout=10)
    assert len(speak(client, SENTENCES[0], **OPTIONS).audio)
