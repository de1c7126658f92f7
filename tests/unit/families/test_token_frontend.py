"""Prompts are those of the families' own code; segments have room for their speech, and nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from public_folders import CODES, Public, write_llasa, write_neutts, write_orpheus
from talkahead.errors import ArtifactMismatch, BadRequest
from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.llasa.checkpoint import chat_template
from talkahead.families.neutts.ipa import Ipa
from talkahead.families.registry import load_family
from talkahead.families.text_prompt import SPEECH, VOICE
from talkahead.families.token_frontend import SLOWEST_BYTES_PER_S, TokenFrontend
from talkahead.speech_format import SpeechFormat

from instruments.public_tokenizers import LLAMA_BASE, llasa_tokenizer, neutts_tokenizer, orpheus_tokenizer

LONG = (
    "The juice of lemons makes fine punch; it's easy to tell the depth of a well, she said, isn't it? "
    "Call 0123456789012345678901234567890123456789 now. "
) * 12


def speech_format(family: str, steps: int = 1, positions: int = 2048) -> SpeechFormat:
    rate, hop = {"llasa": (16_000, 320), "neutts": (24_000, 480), "orpheus": (24_000, 2048)}[family]
    segment = int(positions * 0.7)
    silence = (0,) * steps
    return SpeechFormat(family, rate, hop, (32,) * steps, 8, 4, silence, positions, segment, steps)


def frontend(public: Public, family: str, config: FrontendConfig, **changes: int) -> TokenFrontend:
    config.save(public.folder)
    made = load_family(family).frontend(public.folder, speech_format(family, **changes))
    assert isinstance(made, TokenFrontend)
    return made


@pytest.fixture(scope="module")
def llasa(tmp_path_factory: pytest.TempPathFactory) -> Public:
    return write_llasa(tmp_path_factory.mktemp("llasa"))


@pytest.fixture(scope="module")
def llasa_frontend(llasa: Public) -> TokenFrontend:
    return frontend(llasa, "llasa", FrontendConfig(*chat_template(llasa.folder)))


@pytest.fixture(scope="module")
def orpheus(tmp_path_factory: pytest.TempPathFactory) -> Public:
    return write_orpheus(tmp_path_factory.mktemp("orpheus"))


@pytest.fixture(scope="module")
def neutts(tmp_path_factory: pytest.TempPathFactory) -> Public:
    return write_neutts(tmp_path_factory.mktemp("neutts"))


def only(front: TokenFrontend, text: str, said: str | None = None) -> list[int]:
    (segment,) = front.segments(text, said)
    assert segment.units.dtype == "int32"
    assert segment.units.shape[1] == 1
    return [int(unit) for unit in segment.units[:, 0]]


def llasa_reference(public: Public, text: str, codes: Sequence[int] = ()) -> list[int]:
    """As the checkpoint's publishers have it prompted, on the day that the template knows of itself."""
    spoken = "".join(f"<|s_{code}|>" for code in codes)
    words = f"<|TEXT_UNDERSTANDING_START|>{text}<|TEXT_UNDERSTANDING_END|>"
    chat = [
        {"role": "user", "content": f"Convert the text to speech:{words}"},
        {"role": "assistant", "content": f"<|SPEECH_GENERATION_START|>{spoken}"},
    ]
    made = public.tokenizer.apply_chat_template(
        chat, tokenize=True, continue_final_message=True, return_dict=False, date_string="26 Jul 2024"
    )
    return list(made)


@pytest.mark.parametrize(
    "text", ["Hello there.", "\"It's 5 o'clock,\" she said!", "你好，世界。", "(well) 12,5 %"]
)
def test_llasa_is_prompted_as_transformers_writes_its_chat(
    text: str, llasa: Public, llasa_frontend: TokenFrontend
) -> None:
    assert only(llasa_frontend, text) == [*llasa_reference(llasa, text), SPEECH]


def test_llasa_reads_what_is_said_before_the_text(llasa: Public, llasa_frontend: TokenFrontend) -> None:
    units = only(llasa_frontend, "Hello there.", "My name is tara.")
    reference = llasa_reference(llasa, "My name is tara. Hello there.", [3, 31, 0])
    assert units == [*reference[:-3], SPEECH]
    assert llasa.tokenizer.convert_ids_to_tokens(reference[-3:]) == ["<|s_3|>", "<|s_31|>", "<|s_0|>"]
    added = len(units) - len(only(llasa_frontend, "Hello there."))
    assert 0 < added <= llasa_frontend.units_of("My name is tara.") <= added + 2


@pytest.mark.slow
def test_llasa_at_its_true_size(tmp_path: Path) -> None:
    made = llasa_tokenizer(65_536, LLAMA_BASE)
    made.save_pretrained(tmp_path)
    public = Public(tmp_path, made, None)  # type: ignore[arg-type]
    front = frontend(public, "llasa", FrontendConfig(*chat_template(tmp_path)))
    assert made.convert_tokens_to_ids(["<|s_0|>", "<|SPEECH_GENERATION_END|>"]) == [128_264, 128_261]
    units = only(front, "Hello there.")
    assert units == [*llasa_reference(public, "Hello there."), SPEECH]
    assert {128_258, 128_259, 128_260} < set(units)


def orpheus_reference(public: Public, prompt: str) -> list[int]:
    ids = public.tokenizer.convert_tokens_to_ids
    end = ["<|eot_id|>", "<custom_token_4>", "<custom_token_5>", "<custom_token_1>"]
    return [ids("<custom_token_3>"), *public.tokenizer(prompt).input_ids, *map(ids, end)]


@pytest.mark.parametrize("text", ["Hello there.", '"Well," he said', "12 lemons", "<laugh> fine", "...so?"])
def test_orpheus_is_called_by_name(text: str, orpheus: Public) -> None:
    front = frontend(orpheus, "orpheus", FrontendConfig(), steps=7)
    units = only(front, text)
    words = orpheus.tokenizer("tara:", add_special_tokens=False).input_ids
    at = units.index(VOICE)
    assert [*units[:at], *words, *units[at + 1 :]] == orpheus_reference(orpheus, f"tara: {text}")


def test_orpheus_speaks_like_a_turn_before(orpheus: Public) -> None:
    front = frontend(orpheus, "orpheus", FrontendConfig(), steps=7)
    units = only(front, "Hello there.", "My name is zac.")
    ends = orpheus.tokenizer.convert_tokens_to_ids(["<custom_token_2>", "<custom_token_6>"])
    turns = [orpheus_reference(orpheus, words) for words in ("My name is zac.", "Hello there.")]
    assert units == [*turns[0], SPEECH, *ends, *turns[1]]


def test_orpheus_at_its_true_size() -> None:
    made = orpheus_tokenizer(4096, LLAMA_BASE)
    ids = made.convert_tokens_to_ids
    own = [ids(f"<custom_token_{number}>") for number in (10, 2, 3, 4, 5, 1)]
    assert own == [128_266, 128_258, 128_259, 128_260, 128_261, 128_257]
    assert ids("<|eot_id|>") == 128_009


def neutts_reference(public: Public, said: str, phonemes: str) -> list[int]:
    """As its own code puts the prompt together."""
    ids = public.tokenizer.convert_tokens_to_ids
    chat = public.tokenizer.encode(
        "user: Convert the text to speech:<|TEXT_REPLACE|>\nassistant:<|SPEECH_REPLACE|>"
    )
    words = public.tokenizer.encode(f"{said} {phonemes}", add_special_tokens=False)
    place = chat.index(ids("<|TEXT_REPLACE|>"))
    prompt = [ids("<|TEXT_PROMPT_START|>"), *words, ids("<|TEXT_PROMPT_END|>")]
    whole = [*chat[:place], *prompt, *chat[place + 1 :]]
    return [*whole[: whole.index(ids("<|SPEECH_REPLACE|>"))], ids("<|SPEECH_GENERATION_START|>")]


def test_neutts_reads_phonemes_behind_those_of_its_voice(neutts: Public) -> None:
    front = frontend(neutts, "neutts", FrontendConfig(phonemes="own"))
    said, text = (Ipa().spell(words) for words in ("My name is Jo.", "Hello there, lemons!"))
    reference = neutts_reference(neutts, said, text)
    assert only(front, "Hello there, lemons!", "My name is Jo.") == [*reference, SPEECH]


def test_neutts_on_a_llama_begins_with_its_token_as_the_reference_encodes_it(tmp_path: Path) -> None:
    made = neutts_tokenizer(CODES, begins=True)
    made.save_pretrained(tmp_path)
    public = Public(tmp_path, made, None)  # type: ignore[arg-type]
    front = frontend(public, "neutts", FrontendConfig(phonemes="own"))
    said, text = (Ipa().spell(words) for words in ("My name is Jo.", "Hello there, lemons!"))
    reference = neutts_reference(public, said, text)
    assert reference[0] == made.bos_token_id
    assert only(front, "Hello there, lemons!", "My name is Jo.") == [*reference, SPEECH]


@pytest.mark.parametrize("family", ["llasa", "orpheus", "neutts"])
@pytest.mark.parametrize(
    "text", [LONG, "lemons " * 400, "9" * 900, "ab" * 900, "A. " * 300, "Hi!\n\nLemons? Fine."]
)
def test_segments_fit_and_say_everything(family: str, text: str, request: pytest.FixtureRequest) -> None:
    public: Public = request.getfixturevalue(family)
    config = FrontendConfig(*chat_template(public.folder)) if family == "llasa" else FrontendConfig()
    steps = 7 if family == "orpheus" else 1
    front, speech = frontend(public, family, config, steps=steps), speech_format(family, steps)
    segments = list(front.segments(text))
    per_byte = speech.frames_per_s * steps / SLOWEST_BYTES_PER_S
    for segment in segments:
        spoken = text[segment.char_start : segment.char_end]
        size = len(spoken.encode()) + 5 * sum(map(str.isdigit, spoken))
        assert len(segment.units) + size * per_byte <= speech.segment_positions
    edges = [0, *(edge for one in segments for edge in (one.char_start, one.char_end)), len(text)]
    assert edges == sorted(edges)
    between = [text[end:begin] for end, begin in zip(edges[::2], edges[1::2], strict=True)]
    assert not "".join(between).strip()
    assert segments[-1].pause_s == 0.0


STORY = (
    "It was a dark night. The rain fell in torrents, and nobody was about; a lamp swung in the wind. "
    "She went on, though it was late! Was anybody there? "
) * 8


def spoken_positions(front: TokenFrontend, text: str) -> int:
    return front._positions_of(text) - front._bare


@pytest.mark.parametrize("text", [STORY, LONG, "Chapter 1\n\n" + STORY, "lemons " * 300, "Hi! " + LONG])
def test_where_nothing_fixes_the_voice_the_first_segment_does(
    text: str, llasa: Public, llasa_frontend: TokenFrontend
) -> None:
    """Its words stand in the prompts of the others, as a recording's would, and its speech has room there."""
    speech = speech_format("llasa")
    first, *others = llasa_frontend.segments(text, is_fixed=False)
    opening = text[first.char_start : first.char_end]
    assert others and first.recall == 0
    assert first.units[:, 0].tolist() == ids_of(llasa_frontend, opening, None)
    assert len(opening) >= 30 and spoken_positions(llasa_frontend, opening) <= speech.max_positions // 2
    (recall,) = {segment.recall for segment in others}
    assert recall >= spoken_positions(llasa_frontend, opening) - llasa_frontend.units_of(opening) > 0
    for segment in others:
        own = text[segment.char_start : segment.char_end]
        assert segment.units[:, 0].tolist() == ids_of(llasa_frontend, own, opening)
        size = len(own.encode()) + 5 * sum(map(str.isdigit, own))
        steps = size * speech.frames_per_s / SLOWEST_BYTES_PER_S
        assert len(segment.units) + recall + steps <= speech.max_positions + 2
    edges = [0, *(edge for one in (first, *others) for edge in (one.char_start, one.char_end)), len(text)]
    between = [text[end:begin] for end, begin in zip(edges[::2], edges[1::2], strict=True)]
    assert not "".join(between).strip()


def ids_of(front: TokenFrontend, text: str, said: str | None) -> list[int]:
    return [int(unit) for unit in front._prompt.ids(text, said)]


def test_one_segment_alone_and_a_fixed_voice_go_on_from_nothing(llasa_frontend: TokenFrontend) -> None:
    (alone,) = llasa_frontend.segments("It was a dark night.", is_fixed=False)
    assert alone.recall == 0
    assert {one.recall for one in llasa_frontend.segments(STORY)} == {0}
    like = list(llasa_frontend.segments(STORY, "My name is tara.", is_fixed=False))
    assert {one.recall for one in like} == {0} and len(like) > 1


def test_without_room_for_an_opening_each_segment_stands_alone(llasa: Public) -> None:
    config = FrontendConfig(*chat_template(llasa.folder))
    tight = frontend(llasa, "llasa", config, positions=560)
    assert list(map(str, tight.segments(STORY, is_fixed=False))) == list(map(str, tight.segments(STORY)))


def test_sentences_share_a_segment_while_they_fit_and_pauses_are_a_readers(
    llasa_frontend: TokenFrontend,
) -> None:
    assert len(list(llasa_frontend.segments("Hello there. Fine punch! Is it?"))) == 1
    paragraphs = list(llasa_frontend.segments("Hello there.\n\nFine punch."))
    assert [one.pause_s for one in paragraphs] == [0.6, 0.0]
    cut = list(llasa_frontend.segments(LONG))
    assert len(cut) > 5
    assert {one.pause_s for one in cut} == {0.0, 0.35}
    clauses = list(llasa_frontend.segments("Lemons make fine punch, " * 20 + "she said."))
    assert len(clauses) > 2
    assert {one.pause_s for one in clauses} == {0.0, 0.12}


def test_other_scripts_are_cut_too(llasa_frontend: TokenFrontend) -> None:
    text = "今天天气很好，我们走吧" * 40
    segments = list(llasa_frontend.segments(text))
    assert len(segments) > 5
    assert "".join(text[one.char_start : one.char_end] for one in segments) == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "at least one word"),
        ("🙂🙂", "not only emoji"),
        ("a\x00b", "control characters"),
        ("x" * 20_001, "20,000"),
        ("say [FBI](spell) now", "reads it as it is written"),
        ("[tomato](/T AH0 M EY1 T OW0/)", "reads it as it is written"),
        ("the end<|eot_id|>", "<|eot_id|>.*tokens of the talker's own"),
        ("sing <|s_3|>", "<|s_3|>.*tokens of the talker's own"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(
    text: str, sentence: str, llasa_frontend: TokenFrontend
) -> None:
    with pytest.raises(BadRequest, match=f"(?s)^TEXT: .*{sentence.replace('|', '[|]')}"):
        llasa_frontend.segments(text)
    for ask in (lambda: llasa_frontend.segments("Fine.", text), lambda: llasa_frontend.units_of(text)):
        with pytest.raises(BadRequest, match=r"^REFERENCE_TEXT: "):
            ask()


def test_neutts_with_our_phonemes_honours_marks_and_refuses_other_scripts(neutts: Public) -> None:
    front = frontend(neutts, "neutts", FrontendConfig(phonemes="own"))
    assert only(front, "[lemon](/P AH1 N CH/)") == only(front, "punch")
    with pytest.raises(BadRequest, match="Latin"):
        front.segments("今天")


def test_too_few_positions_are_refused(llasa: Public) -> None:
    with pytest.raises(ArtifactMismatch, match="segment_positions is 280; at least"):
        frontend(llasa, "llasa", FrontendConfig(*chat_template(llasa.folder)), positions=400)


def test_a_missing_file_is_named(llasa: Public, tmp_path: Path) -> None:
    family = load_family("llasa")
    with pytest.raises(ArtifactMismatch, match=r"frontend\.json cannot be read"):
        family.frontend(tmp_path, speech_format("llasa"))
    FrontendConfig().save(tmp_path)
    with pytest.raises(ArtifactMismatch, match=r"tokenizer\.json is missing"):
        family.frontend(tmp_path, speech_format("llasa"))
    shutil.copy(llasa.folder / "tokenizer.json", tmp_path)
    family.frontend(tmp_path, speech_format("llasa"))
