"""Tokens and frames are each other's inverse, with as many codes in a frame as the codec has."""

from __future__ import annotations

import numpy as np
from talkahead.families.code_tokens import CodeTokens
from talkahead.families.registry import load_family
from talkahead.speculation.no_early_end import NoEarlyEnd
from talkahead.speech_format import SpeechFormat


def test_one_code_is_its_token() -> None:
    tokens = CodeTokens((65_536,))
    assert tokens.eos == 65_536
    assert tokens.frames(np.array([0, 65_535, 7], np.int32)).tolist() == [[0], [65_535], [7]]
    assert tokens.tokens(np.array([[0], [65_535], [7]], np.int32)).tolist() == [0, 65_535, 7]


def test_seven_codes_have_tokens_of_their_own_and_code_0_is_one() -> None:
    """The reference drops code 0, and all that follows is shifted."""
    tokens = CodeTokens((4096,) * 7)
    assert tokens.eos == 28_672
    frames = np.array([[0, 0, 0, 0, 0, 0, 0], [5, 4095, 2, 3, 4, 0, 4095]], np.int32)
    drawn = tokens.tokens(frames)
    expected = [4096 * place for place in range(7)]
    assert drawn[:7].tolist() == expected
    assert drawn[7:].tolist() == [5, 8191, 8194, 12_291, 16_388, 20_480, 28_671]
    np.testing.assert_array_equal(tokens.frames(drawn.astype(np.int32)), frames)


def test_the_end_waits_for_the_first_tokens() -> None:
    assert CodeTokens((9,)).allowed is None
    assert CodeTokens((9,), least=50).allowed == NoEarlyEnd(50, 9)
    speech = SpeechFormat("neutts", 24_000, 480, (9,), 50, 5, (0,), 2048, 1433)
    assert load_family("neutts").token_map(speech).allowed == NoEarlyEnd(50, 9)
    assert load_family("llasa").token_map(speech).allowed is None


def test_what_does_not_fill_a_frame_is_left_out() -> None:
    tokens = CodeTokens((8,) * 7)
    drawn = tokens.tokens(np.arange(14).reshape(2, 7) % 8).astype(np.int32)
    for extra in range(7):
        assert len(tokens.frames(drawn[: 7 + extra])) == 1
    assert tokens.frames(drawn[:6]).shape == (0, 7)
