"""Recordings that are left at the door to be spoken like, before a server that plays a script."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import numpy.typing as npt
import openai
import pytest
from answering import Answering, Open
from fake_triton import RATE_HZ, FakeTriton, Response, plays
from openai import AsyncOpenAI
from talkahead_gateway.recording import MAX_S, read_recording
from talkahead_gateway.refusal import Refusal

VOICES = "/v1/audio/voices"
SPEECH = "/v1/audio/speech"
SAID = "My name is Jo."
SECONDS = 1.5


def tone(rate_hz: int, seconds: float = SECONDS) -> npt.NDArray[np.float64]:
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    return 0.4 * np.sin(2 * np.pi * 220.0 * times)


def recording(rate_hz: int = 16_000, channels: int = 2, seconds: float = SECONDS) -> bytes:
    samples = np.round(32_768 * tone(rate_hz, seconds)).astype("<i2")
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setparams((channels, 2, rate_hz, 0, "NONE", ""))
        file.writeframes(np.repeat(samples, channels).tobytes())
    return written.getvalue()


def left(**fields: str) -> dict[str, Any]:
    """What is sent for a voice, of httpx."""
    sample = {"audio_sample": ("jo.wav", recording(), "audio/wav")}
    return {"files": sample, "data": {"name": "jo", "ref_text": SAID, "consent": "mine", **fields}}


def asked(voice: object) -> dict[str, Any]:
    return {"input": "Hello.", "model": "tts-1", "voice": voice, "response_format": "pcm"}


def heard_reference(triton: FakeTriton, place: int) -> tuple[npt.NDArray[np.float32], str] | None:
    request = triton.streams[place].request
    tensors = dict(zip([one.name for one in request.inputs], request.raw_input_contents, strict=True))
    if "REFERENCE_AUDIO" not in tensors:
        return None
    return np.frombuffer(tensors["REFERENCE_AUDIO"], np.float32), tensors["REFERENCE_TEXT"][4:].decode()


def sdk(door: Answering, key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"http://127.0.0.1:{door.port}/v1", api_key=key, max_retries=0)


async def test_a_recording_is_a_voice_for_openais_sdk(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door, sdk(door) as client:
        sample = ("jo.wav", recording(), "audio/wav")
        more = {"ref_text": SAID}
        made = await client.audio.voices.create(
            name="jo", audio_sample=sample, consent="mine", extra_body=more
        )
        assert (made.name, made.object, made.type) == ("jo", "audio.voice", "audio_sample")
        for voice in (made.id, "jo", {"id": made.id}):
            assert (await door.http.post(SPEECH, json=asked(voice))).status_code == 200
        [listed] = (await door.http.get(VOICES)).json()["stored"]
        assert listed["id"] == made.id
        assert (await client.audio.voices.delete(made.id)).deleted
        gone = await door.http.post(SPEECH, json=asked(made.id))
        assert gone.status_code == 400 and gone.json()["error"]["param"] == "voice"
        with pytest.raises(openai.NotFoundError):
            await client.audio.voices.delete(made.id)
    assert [stream.text for stream in triton.streams] == ["Yes.", *["Hello."] * 3]
    for place in range(4):
        reference = heard_reference(triton, place)
        assert reference is not None and reference[1] == SAID
        assert len(reference[0]) == pytest.approx(SECONDS * RATE_HZ, abs=1)
        middle = slice(RATE_HZ // 2, RATE_HZ)
        assert np.abs(reference[0][middle] - tone(RATE_HZ)[middle]).max() < 0.01


async def test_the_same_recording_has_the_same_name_everywhere(open_door: Open) -> None:
    """And another one, or another text, another."""
    async with open_door() as door, open_door() as twin:
        ids = [(await one.http.post(VOICES, **left())).json()["id"] for one in (door, twin)]
        ids.append((await door.http.post(VOICES, **left(name="jane", ref_text="Another."))).json()["id"])
    assert ids[0] == ids[1] != ids[2]


async def test_each_key_has_its_own_and_so_many(open_door: Open, triton: FakeTriton) -> None:
    one, two = ({"headers": {"Authorization": f"Bearer {key}"}} for key in ("one", "two"))
    async with open_door(api_keys=("one", "two"), voices_per_key=1) as door:
        assert (await door.http.post(VOICES, **left())).status_code == 401
        made = (await door.http.post(VOICES, **left(), **one)).json()["id"]
        assert (await door.http.post(SPEECH, json=asked(made), **two)).status_code == 400
        assert (await door.http.delete(f"{VOICES}/{made}", **two)).status_code == 404
        assert (await door.http.get(VOICES, **two)).json()["stored"] == []
        full = await door.http.post(VOICES, **left(name="jane", ref_text="Another."), **one)
        assert full.status_code == 429 and "keeps 1 voices already" in full.json()["error"]["message"]
        assert (await door.http.delete(f"{VOICES}/jo", **one)).json() == {
            "id": made,
            "object": "audio.voice",
            "deleted": True,
        }
        assert (await door.http.post(VOICES, **left(), **one)).status_code == 200


async def test_what_a_server_refuses_is_not_kept(open_door: Open, triton: FakeTriton) -> None:
    triton.script = plays(Response(error_message="INVALID_ARGUMENT: REFERENCE_AUDIO: 0.5 s is too short"))
    async with open_door() as door:
        refused = await door.http.post(VOICES, **left())
        assert (await door.http.get(VOICES)).json()["stored"] == []
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, "audio_sample")
    assert error["message"] == "audio_sample: 0.5 s is too short"


PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n"
LISTED = b"ffconcat version 1.0\nfile /etc/hostname\n"


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"content": b"{}"}, "audio_sample"),
        ({"content": b"--x\r\n", "headers": {"Content-Type": "multipart/form-data"}}, None),
        ({"content": b"\xff" * 99, "headers": {"Content-Type": "multipart/form-data; boundary=x"}}, None),
        ({"data": {"name": "jo", "ref_text": SAID}}, "audio_sample"),
        ({**left(), "files": {"audio_sample": ("jo.wav", b"RIFF")}}, "audio_sample"),
        ({**left(), "files": {"audio_sample": ("jo.wav", b"")}}, "audio_sample"),
        ({**left(), "files": {"audio_sample": ("jo.wav", recording()[:30])}}, "audio_sample"),
        ({**left(), "files": {"audio_sample": ("list.m3u8", PLAYLIST)}}, "audio_sample"),
        ({**left(), "files": {"audio_sample": ("list.txt", LISTED)}}, "audio_sample"),
        (left(name=""), "name"),
        (left(name="alloy"), "name"),
        (left(name="slt"), "name"),
        (left(name="n" * 65), "name"),
        (left(ref_text=" "), "ref_text"),
        (left(model="whisper-1"), "model"),
        (left(type="prompt"), "type"),
        (left(prompt="an old man"), "field"),
    ],
)
async def test_what_is_no_voice_is_refused(
    open_door: Open, triton: FakeTriton, sent: dict[str, Any], param: str | None
) -> None:
    async with open_door() as door:
        refused = await door.http.post(VOICES, **sent)
        is_kept = bool((await door.http.get(VOICES)).json()["stored"])
    assert refused.status_code == 400 and refused.json()["error"]["param"] == param, refused.text
    assert not is_kept and not triton.streams


async def test_a_recording_has_its_limits(open_door: Open) -> None:
    async with open_door() as door:
        large = {**left(), "files": {"audio_sample": ("jo.wav", recording(seconds=170.0))}}
        assert (await door.http.post(VOICES, **large)).status_code == 413
    with pytest.raises(Refusal, match=f"over {MAX_S:g} s"):
        read_recording(recording(8_000, 1, MAX_S + 1), RATE_HZ)
