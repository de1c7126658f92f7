"""Frames are credited to the symbol that the teacher speaks in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instruments.teacher import Phone
from training.alignment import frame_symbols, symbol_of_phone, teacher_name


def test_names_of_the_teacher() -> None:
    assert [teacher_name(symbol) for symbol in ("AH0", "AH1", "IY2", "S", ",")] == [
        "ax",
        "ah",
        "iy",
        "s",
        "pau",
    ]


def test_equal_phones_are_matched_one_to_one() -> None:
    assert symbol_of_phone(["S", "IY1", "."], ["s", "iy"]) == [0, 1]


def test_an_extra_phone_belongs_to_its_predecessor() -> None:
    assert symbol_of_phone(["S", "IY1", "T"], ["s", "iy", "y", "t"]) == [0, 1, 1, 2]


def test_a_phone_left_out_is_skipped() -> None:
    assert symbol_of_phone(["S", "IY1", "T", "AH0"], ["s", "t", "ax"]) == [0, 2, 3]


def test_frames_follow_the_phones_times() -> None:
    phones = (Phone("s", 0.04), Phone("iy", 0.10))
    assert frame_symbols(["S", "IY1", "."], phones, 7).tolist() == [0, 0, 1, 1, 1, 2, 2]


@given(
    st.lists(st.sampled_from(["S", "IY1", "AH0", ","]), min_size=1),
    st.lists(st.sampled_from(["s", "iy", "ax", "pau"])),
)
def test_alignments_never_run_backwards(symbols: list[str], phones: list[str]) -> None:
    owner = symbol_of_phone(symbols, phones)
    assert len(owner) == len(phones)
    assert owner == sorted(owner)
    assert all(0 <= index < len(symbols) for index in owner)
