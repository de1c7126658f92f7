"""The messages of NVIDIA Riva's speech synthesis, as its public interface has them on the wire.

They are described here and built when this is imported, in a pool of their own, so that a process may hold
Riva's own ones as well. On the wire a map is a repeated entry of a key and a value, and an enumeration is an
int32: so they are described. Of what Riva answers, only what is answered here has a place. Times of words are
in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from talkahead_gateway.refusal import Refusal

PACKAGE = "nvidia.riva.tts"
SERVICE = f"{PACKAGE}.RivaSpeechSynthesis"


@dataclass(frozen=True)
class _Field:
    number: int
    type: FieldDescriptorProto.Type.ValueType | str
    """One of protobuf's, or a message of this page."""
    is_repeated: bool = False


_BOOL, _BYTES = FieldDescriptorProto.TYPE_BOOL, FieldDescriptorProto.TYPE_BYTES
_INT32, _STRING = FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_STRING

_MESSAGES: dict[str, dict[str, _Field]] = {
    "Entry": {"key": _Field(1, _STRING), "value": _Field(2, _STRING)},
    "RequestId": {"value": _Field(1, _STRING)},
    "ZeroShotData": {
        "audio_prompt": _Field(1, _BYTES),
        "sample_rate_hz": _Field(2, _INT32),
        "encoding": _Field(3, _INT32),
        "quality": _Field(4, _INT32),
        "transcript": _Field(5, _STRING),
    },
    "SynthesizeSpeechRequest": {
        "text": _Field(1, _STRING),
        "language_code": _Field(2, _STRING),
        "encoding": _Field(3, _INT32),
        "sample_rate_hz": _Field(4, _INT32),
        "voice_name": _Field(5, _STRING),
        "zero_shot_data": _Field(6, "ZeroShotData"),
        "custom_dictionary": _Field(7, _STRING),
        "custom_configuration": _Field(8, "Entry", is_repeated=True),
        "enable_word_time_offsets": _Field(9, _BOOL),
        "id": _Field(100, "RequestId"),
    },
    "WordTiming": {
        "word": _Field(1, _STRING),
        "start_time": _Field(2, _INT32),
        "end_time": _Field(3, _INT32),
    },
    "SynthesizeSpeechResponseMetadata": {"words": _Field(9, "WordTiming", is_repeated=True)},
    "SynthesizeSpeechResponse": {
        "audio": _Field(1, _BYTES),
        "meta": _Field(2, "SynthesizeSpeechResponseMetadata"),
        "id": _Field(100, "RequestId"),
    },
    "RivaSynthesisConfigRequest": {"model_name": _Field(1, _STRING)},
    "Config": {"model_name": _Field(1, _STRING), "parameters": _Field(2, "Entry", is_repeated=True)},
    "RivaSynthesisConfigResponse": {"model_config": _Field(1, "Config", is_repeated=True)},
}


def _described() -> FileDescriptorProto:
    file = FileDescriptorProto(name="talkahead_gateway/riva", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, field in fields.items():
            described = message.field.add(name=field_name, number=field.number)
            described.label = described.LABEL_REPEATED if field.is_repeated else described.LABEL_OPTIONAL
            if isinstance(field.type, str):
                described.type, described.type_name = described.TYPE_MESSAGE, f".{PACKAGE}.{field.type}"
            else:
                described.type = field.type
    return file


_POOL = DescriptorPool()
_POOL.Add(_described())


def read_message(kind: Any, sent: bytes) -> Any:  # noqa: ANN401
    """A message of one of the kinds below; raises Refusal for bytes that are none."""
    try:
        return kind.FromString(sent)
    except DecodeError:
        raise Refusal(400, f"the request cannot be read as {kind.DESCRIPTOR.full_name}") from None


def _message(name: str) -> Any:  # noqa: ANN401
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


SynthesizeSpeechRequest = _message("SynthesizeSpeechRequest")
SynthesizeSpeechResponse = _message("SynthesizeSpeechResponse")
RivaSynthesisConfigRequest = _message("RivaSynthesisConfigRequest")
RivaSynthesisConfigResponse = _message("RivaSynthesisConfigResponse")
