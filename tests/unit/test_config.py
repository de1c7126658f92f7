from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from talkahead.config import SETTINGS, ModelConfig, Real, RequestOptions, SamplingDefaults, child_environment
from talkahead.errors import BadRequest, Code


def test_nothing_given_is_the_default() -> None:
    assert RequestOptions.from_json("", SamplingDefaults()) == RequestOptions()
    assert RequestOptions.from_parameters({}) == RequestOptions()


def test_what_a_request_does_not_set_comes_from_the_checkpoint() -> None:
    defaults = SamplingDefaults(0.6, 0.8, 50, 1.1, 10, 2)
    options = RequestOptions.from_json(
        '{"temperature": 0.9, "ras_win_max_num_repeat": 10, "seed": 4}', defaults
    )
    assert options == RequestOptions(0.9, 0.8, 50, 1.1, 10, 10, seed=4)
    assert RequestOptions.from_json("", defaults) == RequestOptions(0.6, 0.8, 50, 1.1, 10, 2)


def test_a_window_cannot_hold_more_of_a_token_than_it_is_long() -> None:
    given = {"ras_win_len": 7, "ras_win_max_num_repeat": 7}
    assert RequestOptions.from_parameters(given).ras_win_max_num_repeat == 7
    with pytest.raises(BadRequest, match=r"8 is not accepted; .* up to ras_win_len, which is 7"):
        RequestOptions.from_parameters({**given, "ras_win_max_num_repeat": 8})


def test_numbers_may_come_as_strings() -> None:
    """Triton before 25.x has no fractional parameters over HTTP, so clients send strings."""
    given = {"temperature": "0.5", "top_k": "40", "seed": 2**62, "max_seconds": 3, "urgency": 3.0}
    options = RequestOptions.from_parameters(given)
    assert (options.temperature, options.top_k, options.seed) == (0.5, 40, 2**62)
    assert isinstance(options.max_seconds, float) and isinstance(options.urgency, int)


def test_flags_may_come_as_strings() -> None:
    given = [
        RequestOptions.from_parameters({"pin_draft": value}).pin_draft for value in ("true", True, False)
    ]
    assert given == [True, True, False]


def test_triton_s_own_parameters_are_not_ours() -> None:
    assert RequestOptions.from_parameters({"triton_enable_empty_final_response": True}) == RequestOptions()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("repetition_penalty", 0.9, "a number from 1 to 2 (1 = off)"),
        ("repetition_penalty", "nan", "a number from 1 to 2 (1 = off)"),
        ("ras_win_len", 101, "a whole number from 0 to 100 (0 = off)"),
        ("ras_win_max_num_repeat", 0, "a whole number from 1 to 100"),
        ("ras_win_max_num_repeat", 1, "a whole number up to ras_win_len, which is 0"),
        ("temperature", math.nan, "a number from 0 to 2"),
        ("temperature", -0.1, "a number from 0 to 2"),
        ("temperature", "warm", "a number from 0 to 2"),
        ("temperature", True, "a number from 0 to 2"),
        ("top_p", 0, "a number above 0 and up to 1"),
        ("top_p", "inf", "a number above 0 and up to 1"),
        ("top_k", 1.5, "a whole number from 0 to 65,536"),
        ("top_k", "1e3", "a whole number from 0 to 65,536"),
        ("seed", -1, "a whole number from 0 to 9,223,372,036,854,775,807"),
        ("seed", 2**63, "a whole number from 0"),
        ("max_seconds", 1e300, "up to 3600"),
        ("first_chunk_frames", 0, "a whole number from 1 to 250"),
        ("chunk_frames", "9" * 5000, "a whole number from 1 to 250"),
        ("urgency", 4, "from 1 to 3"),
        ("deadline_ms", False, "a whole number from 1"),
        ("tolerance", 17, "a whole number from 1 to 16"),
        ("bias", 1.5, "a number from 0 to 1"),
        ("nodes", 0, "a whole number from 1 to 4,096"),
        ("draft_length", "long", "a whole number from 1 to 64"),
        ("pin_draft", 1, "true or false"),
        ("pin_draft", "yes", "true or false"),
        ("drafter", 0.0, "a name"),
        ("verifier", True, "a name"),
    ],
)
def test_what_is_not_allowed_is_named(name: str, value: object, allowed: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        RequestOptions.from_parameters({name: value})
    assert refusal.value.code is Code.INVALID_ARGUMENT
    assert str(refusal.value).startswith(f"{name}: ") and allowed in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_unknown_names_are_answered_with_the_known() -> None:
    with pytest.raises(BadRequest, match=r"'pitch' is not accepted; allowed: bias, chunk_frames.*verifier"):
        RequestOptions.from_parameters({"pitch": 1})


VALUES = st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=30))


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draw reads tables, on a busy machine too
@given(st.dictionaries(st.sampled_from(sorted(SETTINGS)), VALUES, max_size=4))
def test_any_parameters_are_read_or_refused(parameters: dict[str, object]) -> None:
    try:
        options = RequestOptions.from_parameters(parameters)
    except BadRequest:
        return
    assert 0 <= options.temperature <= 2 and 0 < options.top_p <= 1
    assert options.chunk_frames is None or 1 <= options.chunk_frames <= 250


def test_a_model_is_told_its_folder_and_parameters() -> None:
    config = ModelConfig.from_triton(
        {
            "model_repository": "/models/talker",
            "model_version": "3",
            "model_config": json.dumps(
                {
                    "max_batch_size": 1,
                    "parameters": {"slots": {"string_value": "8"}, "threads": {"string_value": "0"}},
                }
            ),
        }
    )
    assert config.folder == Path("/models/talker/3")
    assert config.artifact_folder("vocoder") == Path("/models/vocoder/3")
    assert config.whole("slots", 16) == 8 and config.whole("max_pending", 64) == 64
    with pytest.raises(BadRequest, match=r"talker: parameter threads: '0' is not accepted"):
        config.whole("threads", 1)
    assert config.real("min_pace", 0.5, Real(0.0, 1.0)) == 0.5
    assert config.real("slots", 16, Real(0.0, 100.0)) == 8.0
    with pytest.raises(
        BadRequest, match=r"parameter slots: '8' is not accepted; allowed: a number from 0 to 1"
    ):
        config.real("slots", 0.5, Real(0.0, 1.0))


def test_folders_are_put_in_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    environment = child_environment({"PATH": "/venv/bin", "LD_LIBRARY_PATH": "/lib/ours"})
    assert environment["PATH"] == "/venv/bin:/usr/bin" and environment["LD_LIBRARY_PATH"] == "/lib/ours"
