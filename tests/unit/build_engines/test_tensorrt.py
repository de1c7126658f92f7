"""What of TensorRT's way can be shown without it: what Polygraphy is asked for, what is refused and said."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from talkahead.errors import ArtifactMismatch
from talkahead.families import tensorrt_network
from talkahead.families.network_file import format_of
from talkahead.families.phonemic.exported_decoder import NETWORK
from talkahead.families.phonemic.spectral_decoder import PITCH_BEFORE
from talkahead.families.tensorrt_network import PLAN, Gpu, TensorrtNetwork, plan_folder
from talkahead.manifest import Manifest, sha256
from tiny_voice import CODEC, write_repository

from build_engines.__main__ import main
from build_engines.network_sources import SOURCES
from build_engines.tensorrt_plan import BUCKETS, profiles

CARD = Gpu("NVIDIA L4", "8.9")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an exported network, as far as its manifest tells."""
    made = write_repository(tmp_path_factory.mktemp("built"))
    version = made / "vocoder" / "1"
    folder = NETWORK.folder_in(version)
    folder.mkdir()
    (folder / NETWORK.name).write_bytes(b"onnx")
    files, target = {NETWORK.name: sha256(folder / NETWORK.name)}, sha256(version / NETWORK.weights)
    source = {"format": sha256(format_of(version))}
    Manifest("the export", "c", "d", 0, {}, files, "l", target, source).write(folder)
    return made


def test_without_a_gpu_it_says_what_is_missing_and_what_to_run_where(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gpu, "here", lambda: None)
    before = sorted((repository / "vocoder" / "1").iterdir())
    assert main(["build", "vocoder", "--precision", "bf16", "--repository", str(repository)]) == 1
    said = capsys.readouterr().err
    assert "here is missing: " in said and "an NVIDIA GPU that torch sees" in said
    command = f"build vocoder --engine tensorrt --precision bf16 --repository {repository}"
    assert f"run with this repository: python -m build_engines {command}" in said
    assert sorted((repository / "vocoder" / "1").iterdir()) == before


def test_nothing_is_built_of_what_was_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = write_repository(tmp_path)
    assert main(["build", "vocoder", "--repository", str(made)]) == 1
    assert f"build the engine with: python -m build_engines export vocoder --repository {made}" in (
        capsys.readouterr().err
    )


def test_every_window_fits_a_profile_of_its_own_bucket(repository: Path) -> None:
    shapes = SOURCES["vocoder"](repository).trace().shapes
    assert shapes is not None
    found, around = profiles(shapes), PITCH_BEFORE + CODEC.lookahead
    assert [one.largest["codes"] for one in found] == [(16, bucket + around) for bucket in BUCKETS]
    assert [one.least["codes"] for one in found] == [
        (1, before + 1 + around) for before in (0, *BUCKETS[:-1])
    ]
    for one in found:
        assert one.least.keys() == set(NETWORK.inputs)
        assert one.usual["before"] == (4, *one.largest["before"][1:])


def test_polygraphy_is_asked_for_profiles_precision_cache_and_compatibility(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan itself is faked here, so the parity that follows refuses it: nothing gets its name."""
    asked: dict[str, Any] = {}

    class Profile(dict[str, Any]):
        def add(self, name: str, **shapes: object) -> None:
            self[name] = shapes

    def engine_of(network: object, *, config: object, save_timing_cache: str) -> bytes:
        asked["network"], asked["cache"] = network, save_timing_cache
        return b"plan"

    def save(engine: bytes, path: str) -> object:
        return lambda: Path(path).write_bytes(engine)

    backend = SimpleNamespace(
        Profile=Profile,
        CreateConfig=lambda **options: asked.update(options),
        EngineFromNetwork=engine_of,
        NetworkFromOnnxPath=lambda path: path,
        SaveEngine=save,
    )
    trt = SimpleNamespace(
        __version__="10.3.0", HardwareCompatibilityLevel=SimpleNamespace(AMPERE_PLUS="ampere")
    )
    for name, module in (
        ("tensorrt", trt),
        ("polygraphy", SimpleNamespace()),
        ("polygraphy.backend.trt", backend),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("build_engines.tensorrt_plan.find_spec", lambda _: True)
    monkeypatch.setattr(Gpu, "here", lambda: CARD)
    refused = ArtifactMismatch("no such plan")

    def parity(self: object, engine: str) -> object:
        manifest = Manifest.read(plan_folder(self.version))  # type: ignore[attr-defined]
        asked["manifest"] = manifest
        raise refused

    monkeypatch.setattr(type(SOURCES["vocoder"](repository)), "parity", parity)
    arguments = ["build", "vocoder", "--precision", "fp16", "--any-ampere-or-later"]
    assert main([*arguments, "--repository", str(repository)]) == 1
    assert asked["fp16"] and not asked["bf16"] and asked["hardware_compatibility_level"] == "ampere"
    assert len(asked["profiles"]) == len(BUCKETS) and asked["profiles"][0].keys() == set(NETWORK.inputs)
    assert asked["cache"] == str(repository / "vocoder" / "1" / "timing.cache")
    assert asked["network"] == str(NETWORK.folder_in(repository / "vocoder" / "1") / NETWORK.name)
    made = asked["manifest"].engine
    assert made["gpu"] == vars(CARD) and made["versions"] == {"tensorrt": "10.3.0"}
    assert made["precision"] == "fp16" and made["hardware_compatibility"] == "ampere_plus"
    assert asked["manifest"].command.endswith(" --any-ampere-or-later")
    assert not plan_folder(repository / "vocoder" / "1").exists()


def test_polygraphy_itself_takes_the_arguments() -> None:
    polygraphy = pytest.importorskip("polygraphy.backend.trt")
    profile = polygraphy.Profile()
    profile.add("codes", min=(1, 5), opt=(4, 20), max=(16, 20))
    config = polygraphy.CreateConfig(
        profiles=[profile],
        load_timing_cache=None,
        hardware_compatibility_level=None,
        tf32=True,
        fp16=True,
        bf16=False,
    )
    network = polygraphy.NetworkFromOnnxPath("codec.onnx")
    polygraphy.SaveEngine(polygraphy.EngineFromNetwork(network, config=config, save_timing_cache="c"), PLAN)


def write_plan(repository: Path, **changed: object) -> Path:
    version = repository / "vocoder" / "1"
    folder = plan_folder(version)
    folder.mkdir(exist_ok=True)
    (folder / PLAN).write_bytes(b"plan")
    engine = {
        "format": sha256(format_of(version)),
        "precision": "fp16",
        "gpu": vars(CARD),
        "versions": {"tensorrt": "10.3.0"},
        "hardware_compatibility": "",
        **changed,
    }
    files, target = {PLAN: sha256(folder / PLAN)}, sha256(version / NETWORK.weights)
    Manifest("the build", "c", "d", 0, {}, files, "l", target, engine).write(folder)
    return version


@pytest.mark.parametrize(
    ("card", "version", "reason"),
    [
        (
            None,
            "10.3.0",
            "for a GPU of architecture 8.9 .NVIDIA L4., and here is no GPU; rebuild it here with: the",
        ),
        (
            Gpu("NVIDIA A100", "8.0"),
            "10.3.0",
            "and here is NVIDIA A100 of 8.0; rebuild it here with: the build",
        ),
        (CARD, "10.9.0", "was made by TensorRT 10.3.0, and here is 10.9.0; rebuild it here with: the build"),
    ],
    ids=["no card", "another card", "another TensorRT"],
)
def test_a_plan_of_another_machine_is_refused(
    card: Gpu | None, version: str, reason: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__version__=version))
    monkeypatch.setattr(Gpu, "here", lambda: card)
    with pytest.raises(ArtifactMismatch, match=reason):
        TensorrtNetwork.load(write_plan(repository), NETWORK)


def test_a_portable_plan_runs_on_another_card(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__version__="10.3.0"))
    monkeypatch.setattr(Gpu, "here", lambda: Gpu("NVIDIA A100", "8.0"))
    version = write_plan(repository, hardware_compatibility="ampere_plus")
    manifest = Manifest.read(plan_folder(version))
    tensorrt_network.require_machine(manifest, plan_folder(version))


def test_a_plan_is_missing_cut_or_of_other_weights(repository: Path) -> None:
    version = write_plan(repository)
    (plan_folder(version) / PLAN).write_bytes(b"pl")
    with pytest.raises(ArtifactMismatch, match=r"is not the file that manifest.json describes"):
        TensorrtNetwork.load(version, NETWORK)
    version = write_plan(repository, format="of another voice")
    with pytest.raises(ArtifactMismatch, match="was made for another format"):
        TensorrtNetwork.load(version, NETWORK)
    for file in plan_folder(version).iterdir():
        file.unlink()
    with pytest.raises(ArtifactMismatch, match=r"missing; build the engine with: .* --engine tensorrt"):
        TensorrtNetwork.load(version, NETWORK)


def test_on_a_cpu_there_is_no_such_engine(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert main(["parity", "vocoder", "tensorrt", "--repository", str(repository)]) == 1
    assert "engine: tensorrt runs on a GPU, and torch sees none here" in capsys.readouterr().err
