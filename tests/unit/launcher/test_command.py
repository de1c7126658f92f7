from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from talkahead.backbone import tree_attention
from talkahead.errors import TalkaheadError
from talkahead.launcher import addresses as addresses_module
from talkahead.launcher import command, doctor
from talkahead.launcher.addresses import Addresses


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "--threads", "talker"], "'talker' is not MODEL=N"),
        (["serve", "--grpc-port", "70000"], "not a whole number from 0 to 65535"),
        (["serve", "--drain-timeout", "nan"], "not a number of seconds"),
        (["serve", "--log-level", "loud"], "invalid choice"),
        (["serve", "--gateway", "--port", "here"], "'here' is not a whole number"),
        (["serve", "--gateway", "--grpc-port", "1"], "unrecognized arguments: --grpc-port 1"),
        (["speak"], "text"),
        ([], "COMMAND"),
    ],
)
def test_wrong_usage(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == command.USAGE_ERROR and sentence in capsys.readouterr().err


def test_a_repository_without_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["serve", "--repository", str(tmp_path)]) == 1
    assert f"{tmp_path} holds no model" in capsys.readouterr().err


def test_threads_of_a_model_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "talker").mkdir()
    (tmp_path / "talker" / "config.pbtxt").touch()
    assert command.main(["serve", "--repository", str(tmp_path), "--threads", "singer=1"]) == 1
    assert "--threads singer: the repository has talker" in capsys.readouterr().err


@pytest.mark.parametrize(("there", "allowed"), [("onnxruntime", "onnxruntime"), ("", "none here")])
def test_configurations_that_no_model_has(
    there: str, allowed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "talker" / "configs").mkdir(parents=True)
    (tmp_path / "talker" / "config.pbtxt").touch()
    if there:
        (tmp_path / "talker" / "configs" / f"{there}.pbtxt").touch()
    assert command.main(["serve", "--repository", str(tmp_path), "--model-config-name", "onnx"]) == 1
    assert f"has configs/onnx.pbtxt; allowed: {allowed}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["my talker", "rôle"])
def test_a_model_that_triton_cannot_start(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.pbtxt").touch()
    assert command.main(["serve", "--repository", str(tmp_path)]) == 1
    assert f"--repository {tmp_path}: Triton cannot start a model named '{name}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--gateway", "--server=a:1"], "--gateway: its --server is the one that is started here"),
        (["--gateway", "--api-keys-file", "nowhere"], "nowhere"),
        (["--tls-certificate", "a", "--tls-key", "b", "--gateway"], "it speaks plain text"),
    ],
)
def test_a_gateway_that_cannot_be_had(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["serve", *arguments]) == 1
    assert sentence in capsys.readouterr().err


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["serve", "--help"])
    shown = capsys.readouterr().out
    for option in (
        "--repository",
        "--grpc-port",
        "--model-config-name",
        "--threads",
        "--log-level",
        "--restarts",
    ):
        assert option in shown


def test_free_ports_differ() -> None:
    addresses = Addresses.choose("127.0.0.1", http=8123)
    assert addresses.http == 8123 and len({addresses.grpc, addresses.http, addresses.metrics}) == 3
    assert str(addresses) == (
        f"grpc 127.0.0.1:{addresses.grpc} http 127.0.0.1:8123 metrics 127.0.0.1:{addresses.metrics}"
    )


@pytest.mark.skipif(not addresses_module._LENT.exists(), reason="the system does not say what it lends")
def test_free_ports_are_none_that_whoever_calls_others_is_lent() -> None:
    chosen = Addresses.choose("127.0.0.1")
    assert max(chosen.grpc, chosen.http, chosen.metrics) < int(
        addresses_module._LENT.read_text(encoding="ascii").split()[0]
    )


@pytest.mark.parametrize("lent", ["0 65535", "1024 65535", "unknown", None])
def test_where_the_system_lends_all_ports_any_free_one_will_do(
    lent: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses_module, "_LENT", tmp_path / "range")
    if lent is not None:
        (tmp_path / "range").write_text(lent)
    chosen = Addresses.choose("127.0.0.1")
    assert len({chosen.grpc, chosen.http, chosen.metrics}) == 3


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TalkaheadError, match=rf"127.0.0.1:{port} cannot be had .*choose another port"):
            Addresses.choose("127.0.0.1", grpc=port)


def test_the_doctor_names_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.examine(tmp_path, (0,)) == 1
    shown = capsys.readouterr().out
    assert "MISS  talker/1/manifest.json: none\n      -> give --repository" in shown
    assert "3 things are missing" in shown


def test_the_doctor_names_gpus_and_what_their_kernel_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"GPU of number {number}")
    properties = SimpleNamespace(total_memory=80 << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: properties)
    for problem, shown in (
        (None, "ok    attention kernel: runs"),
        ("no compiler", "note  attention kernel: no compiler\n      -> pip install triton==3.7.1"),
    ):
        monkeypatch.setattr(tree_attention, "problem_with_kernel", lambda device, found=problem: found)
        doctor.examine(tmp_path, (0,))
        printed = capsys.readouterr().out
        assert "ok    GPU 0: GPU of number 0, 81,920 MiB" in printed and shown in printed


def test_a_gateway_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in [name for name in sys.modules if name.startswith("talkahead_gateway")]:
        monkeypatch.delitem(sys.modules, name)
    assert command.main(["gateway", "--port", "0"]) == 1
    shown = capsys.readouterr().err
    assert "the gateway needs the module uvicorn" in shown and "pip install" in shown


def test_the_gateway_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "gateway" in capsys.readouterr().out
