from __future__ import annotations

import pytest
from talkahead.launcher.log_line import LogLevel
from talkahead.launcher.server_log import ServerLog

# As Triton 24.10 writes it, and as 25.x does: the text in quotes, line ends escaped.
OLD = "{level}1121 03:02:02.682914 123 model_lifecycle.cc:642] {text}"
NEW = '{level}1121 03:02:02.682914 123 model_lifecycle.cc:642] "{text}"'


@pytest.fixture
def shown() -> list[str]:
    return []


def read(shown: list[str], *lines: str, level: LogLevel = LogLevel.WARNING) -> ServerLog:
    log = ServerLog(lambda line: shown.append(str(line)), level)
    for line in lines:
        log.read(line)
    return log


@pytest.mark.parametrize("form", [OLD, NEW])
def test_lines_are_short_and_filtered(shown: list[str], form: str) -> None:
    lines = [form.format(level=level, text=f"about {level}") for level in "VIWE"]
    read(shown, *lines)
    assert shown == [
        "03:02:02.682 warning about W  (model_lifecycle.cc:642)",
        "03:02:02.682 error   about E  (model_lifecycle.cc:642)",
    ]


@pytest.mark.parametrize("form", [OLD, NEW])
def test_loaded_models_are_counted(shown: list[str], form: str) -> None:
    log = read(shown, form.format(level="I", text="successfully loaded 'tts'"))
    assert log.loaded == {"tts"} and shown == []


def test_a_failure_is_kept_whole_but_not_its_stack(shown: list[str]) -> None:
    text = "failed to load 'tts' version 1: Internal: ValueError: no 'x'\\nat all"
    text += "\\n\\nAt:\\n  model.py(9): f\\n  z(1): g\\n"
    log = read(shown, NEW.format(level="E", text=text))
    assert log.reason == "model tts did not load: ValueError: no 'x'\nat all (at model.py(9): f)"
    assert shown == []


def test_a_failure_over_several_lines(shown: list[str]) -> None:
    head = OLD.format(level="E", text="failed to load 'tts' version 1: Internal: ValueError: no")
    log = read(shown, head, "", "At:", "  model.py(9): f")
    assert log.reason == "model tts did not load: ValueError: no (at model.py(9): f)"


def test_what_models_print_is_shown_and_tables_are_not(shown: list[str]) -> None:
    read(shown, "+------+", "| tts | READY |", "", "hello from a model", "At:", "  model.py(1): f")
    assert [line.strip() for line in shown] == ["hello from a model"]
    read(shown, "+------+", level=LogLevel.DEBUG)
    assert shown[-1].strip() == "+------+"


def test_an_exception_that_ended_a_model_is_shown_whole(shown: list[str]) -> None:
    stack = ["Traceback (most recent call last):", '  File "a.py", line 3, in run', "ValueError: no"]
    read(shown, *stack)
    assert [line.strip() for line in shown] == [line.strip() for line in stack]


def test_errors_are_counted_whether_they_are_shown_or_not(shown: list[str]) -> None:
    lines = [NEW.format(level=level, text=f"about {level}") for level in "VIWEE"]
    noise = NEW.format(level="E", text="CudaDriverHelper has not been initialized.")
    assert read(shown, *lines, noise, level=LogLevel.ERROR).num_errors == 2
    assert read(shown, *lines, noise, level=LogLevel.DEBUG).num_errors == 2


def test_a_crash_is_noticed_and_a_request_to_stop_is_none(shown: list[str]) -> None:
    assert read(shown, "Signal (15) received.", "hello").crash == ""
    assert read(shown, "Signal (11) received.", " 0# 0x00 in tritonserver").crash == "Signal (11) received"


def test_a_server_that_says_nothing(shown: list[str]) -> None:
    assert "--log-level info" in read(shown).reason


def test_the_end_of_a_process_is_explained(shown: list[str]) -> None:
    failed = OLD.replace("{text}", "failed to load '{model}' version 1: Internal: {reason}")
    died = failed.format(level="E", model="tts", reason="Stub process 'tts_0_0' is not healthy.")
    raised = failed.format(level="E", model="talker", reason="ValueError: no weights")
    loaded = OLD.format(level="I", text="successfully loaded 'vocoder'")
    log = read(shown, loaded)
    assert not any(map(log.explains_end, ("tts", "talker", "vocoder", "")))
    log = read(shown, loaded, died, raised)
    assert not log.explains_end("tts") and all(map(log.explains_end, ("talker", "vocoder", "")))
    assert not any(map(read(shown, loaded, died).explains_end, ("tts", "")))
    untold = read(shown, "cannot open libpython", loaded, died)
    assert untold.reason == (
        "the process of model tts died during the start; printed last: cannot open libpython"
    )


def test_the_last_words_of_processes(shown: list[str]) -> None:
    lines = [str(number) for number in range(9)]
    log = read(shown, *lines, "terminate called after throwing", "  what():  stol")
    assert log.last_words == "; printed last: 8 terminate called after throwing what():  stol"
    assert log.reason.startswith(f"the server stopped by itself{log.last_words}; ")
    assert read(shown, OLD.format(level="W", text="of Triton")).last_words == ""
