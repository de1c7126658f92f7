"""`config.pbtxt`, the package and the client agree on every name and type that crosses a boundary."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from google.protobuf import text_format
from talkahead import types
from talkahead.config import AUTO, SETTINGS, SPECULATION, RequestOptions
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.drafters import DRAFTERS, drafter_names
from talkahead.serving.control_server import ControlServer
from talkahead.speculation.verifiers import VERIFIERS
from talkahead_client import protocol
from tritonclient.grpc import model_config_pb2

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
MODELS = ("frontend", "encoder", "talker", "vocoder", "control")
KSERVE_NAMES = {"STRING": "BYTES"}
HEADERS = {"SEGMENT": types.SegmentHeader, "WINDOW": types.WindowHeader, "STATS": types.Stats}


def config_of(model: str) -> model_config_pb2.ModelConfig:
    return text_format.Parse(
        (REPOSITORY / model / "config.pbtxt").read_text(), model_config_pb2.ModelConfig()
    )


def described(tensors: object) -> set[protocol.Tensor]:
    """Tensors of a configuration, as the client describes them."""
    described = set()
    for tensor in tensors:
        kind = model_config_pb2.DataType.Name(tensor.data_type).removeprefix("TYPE_")
        is_optional = getattr(tensor, "optional", False)
        described.add(
            protocol.Tensor(tensor.name, KSERVE_NAMES.get(kind, kind), tuple(tensor.dims), is_optional)
        )
    return described


def kinds(tensors: object) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in tensors}


@pytest.mark.parametrize(
    ("model", "inputs", "outputs"),
    [
        (protocol.SPEECH_MODEL, protocol.SPEECH_INPUTS, protocol.SPEECH_OUTPUTS),
        (protocol.CONTROL_MODEL, protocol.CONTROL_INPUTS, protocol.CONTROL_OUTPUTS),
    ],
)
def test_the_client_knows_the_tensors(
    model: str, inputs: tuple[protocol.Tensor, ...], outputs: tuple[protocol.Tensor, ...]
) -> None:
    config = config_of(model)
    assert described(config.input) == set(inputs)
    assert described(config.output) == set(outputs)


def test_the_client_knows_the_headers_and_parameters() -> None:
    assert tuple(field.name for field in fields(types.Stats)) == protocol.STATS_FIELDS
    assert {reason.name: int(reason) for reason in protocol.StopReason} == {
        reason.name: int(reason) for reason in types.StopReason
    }
    assert {kind.name: int(kind) for kind in protocol.Spoken} == {
        kind.name: int(kind) for kind in types.Spoken
    }
    assert (drafter_names(), tuple(VERIFIERS)) == (protocol.DRAFTER_NAMES, protocol.VERIFIER_NAMES)
    assert set(protocol.DRAFTING) == {"drafter", "verifier", *SPECULATION}
    assert set(protocol.PARAMETERS) == set(SETTINGS) == {field.name for field in fields(RequestOptions)}


def test_the_client_knows_the_commands() -> None:
    for command in protocol.CONTROL_COMMANDS:
        assert f'"{command}":' in _source(ControlServer)


@pytest.mark.parametrize("model", [*MODELS, "tts"])
def test_headers_have_as_many_values_as_fields(model: str) -> None:
    config = config_of(model)
    for tensor in (*config.input, *config.output):
        if tensor.name in HEADERS:
            assert tensor.data_type == model_config_pb2.TYPE_INT64
            assert tuple(tensor.dims) == (len(fields(HEADERS[tensor.name])),)


def test_the_ensemble_joins_tensors_of_one_type() -> None:
    """Each wire has one writer and one reader, which agree; every input of every step is fed."""
    ensemble = config_of("tts")
    wires = kinds(ensemble.input)
    for step in ensemble.ensemble_scheduling.step:
        inputs, outputs = kinds(config_of(step.model_name).input), kinds(config_of(step.model_name).output)
        assert set(step.input_map) == set(inputs)
        for name, wire in step.input_map.items():
            assert wires[wire] == inputs[name], f"{step.model_name} reads {name}"
        for name, wire in step.output_map.items():
            assert wire not in wires or wire in kinds(ensemble.output)
            wires[wire] = outputs[name]
    assert kinds(ensemble.output).items() <= wires.items()


def test_everything_that_a_client_gets_leaves_one_step() -> None:
    """Triton joins the outputs of different steps by the order in which they end."""
    ensemble = config_of("tts")
    last = ensemble.ensemble_scheduling.step[-1]
    assert last.model_name == "vocoder" and set(last.output_map.values()) == set(kinds(ensemble.output))


@pytest.mark.parametrize(("model", "is_ordered"), [("encoder", False), ("vocoder", True)])
def test_steps_after_a_decoupled_one_take_mixed_shapes(model: str, is_ordered: bool) -> None:
    """Chunks keep their order; segments must not, or a newcomer's would wait behind those of a long text."""
    config = config_of(model)
    assert config.HasField("dynamic_batching")
    assert config.dynamic_batching.preserve_ordering == is_ordered
    assert all(tensor.allow_ragged_batch == (-1 in tensor.dims) for tensor in config.input)
    assert sum(group.count for group in config.instance_group) == 1


@pytest.mark.parametrize("model", MODELS)
def test_models_load_anywhere(model: str) -> None:
    config = config_of(model)
    assert [group.kind for group in config.instance_group] == [model_config_pb2.ModelInstanceGroup.KIND_MODEL]
    assert config.backend == "python"
    assert config.model_transaction_policy.decoupled == (model in ("frontend", "talker"))
    assert config.max_batch_size == 1 or model in ("encoder", "vocoder")
    assert not any("/" in value.string_value for value in config.parameters.values())


def test_the_talker_drafts_as_the_machine_does_best_and_keeps_the_tokens() -> None:
    told = config_of("talker").parameters
    assert (told["drafter"].string_value, told["verifier"].string_value) == (AUTO, "match")
    assert all(Acceptance.read(path.parent) for path in REPOSITORY.glob("talker/1/drafts/*/config.json"))


def test_every_option_of_drafters_and_verifiers_is_a_parameter() -> None:
    specs = (*DRAFTERS.values(), *VERIFIERS.values())
    assert {name for spec in specs for name in spec.options} == set(SPECULATION)


@pytest.mark.parametrize("model", MODELS)
def test_adapters_are_thin(model: str) -> None:
    source = (REPOSITORY / model / "1" / "model.py").read_text()
    assert len(source.splitlines()) <= 80
    assert f"talkahead.serving.{model}_server import {model.capitalize()}Server" in source


def _source(kind: type) -> str:
    import inspect

    return inspect.getsource(kind)


@pytest.mark.parametrize(
    "path", sorted(REPOSITORY.glob("*/configs/*.pbtxt")), ids=lambda path: "/".join(path.parts[-3:])
)
def test_a_named_configuration_has_the_same_tensors(path: Path) -> None:
    named = text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
    usual = config_of(path.parts[-3])
    assert kinds(named.input) == kinds(usual.input)
    assert kinds(named.output) == kinds(usual.output)
