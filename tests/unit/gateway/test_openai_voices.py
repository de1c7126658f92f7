from __future__ import annotations

import typing

import pytest
from openai.types.audio.speech_create_params import Voice
from talkahead_gateway.refusal import Refusal
from talkahead_gateway.voices import OPENAI_VOICES, choose_voice

SHIPPED = ("heart", "alto", "tenor")


def test_every_voice_of_openais_package_is_an_alias() -> None:
    [names] = [set(typing.get_args(part)) for part in typing.get_args(Voice) if typing.get_args(part)]
    assert set(OPENAI_VOICES) == names and len(names) == 13
    assert set(OPENAI_VOICES.values()) == set(SHIPPED)


@pytest.mark.parametrize(("name", "voice"), [("nova", "heart"), ("sage", "alto"), ("onyx", "tenor")])
def test_an_alias_stands_for_a_voice(name: str, voice: str) -> None:
    assert choose_voice(name, SHIPPED) == voice


def test_a_servers_own_name_comes_first() -> None:
    assert choose_voice("onyx", ("heart", "onyx")) == "onyx"
    assert choose_voice("tenor", SHIPPED) == "tenor"


def test_where_a_voice_is_not_there_an_alias_is_the_servers_first() -> None:
    assert choose_voice("onyx", ("tara", "leo")) == "tara"


@pytest.mark.parametrize("name", ["nobody", "", "Heart", "\ud800"])
def test_an_unknown_voice_is_refused_with_all_that_are_known(name: str) -> None:
    with pytest.raises(Refusal) as caught:
        choose_voice(name, SHIPPED)
    assert caught.value.param == "voice"
    assert all(known in str(caught.value) for known in (*SHIPPED, *OPENAI_VOICES))


@pytest.mark.parametrize("name", ["alloy", "heart"])
def test_a_server_without_voices_speaks_like_recordings(name: str) -> None:
    with pytest.raises(Refusal, match="a recording that was left at POST /v1/audio/voices"):
        choose_voice(name, ())
