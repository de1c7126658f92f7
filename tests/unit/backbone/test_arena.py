"""Pieces of an arena: zero, aligned, right after one another, and alive without it."""

from __future__ import annotations

import gc
import mmap
from pathlib import Path

import pytest
import torch
from talkahead.backbone.arena import Arena, untouched_zeros


def test_pieces_are_zero_aligned_and_neighbours() -> None:
    arena = Arena()
    first, second, third = arena.take(100), arena.take(64), arena.take(1)
    assert [len(piece) for piece in (first, second, third)] == [100, 64, 1]
    assert not any(piece.any() for piece in (first, second, third))
    assert first.data_ptr() % 64 == 0
    assert second.data_ptr() == first.data_ptr() + 128
    assert third.data_ptr() == second.data_ptr() + 64


def test_what_does_not_fit_gets_memory_of_its_own() -> None:
    arena = Arena()
    small, large = arena.take(64), arena.take(1 << 26)
    small.fill_(1)
    assert len(large) == 1 << 26 and not large.any()


def test_a_piece_outlives_its_arena() -> None:
    piece = Arena().take(1 << 20)
    gc.collect()
    piece.fill_(7)
    assert torch.equal(piece, torch.full_like(piece, 7))


def test_untouched_zeros_take_memory_where_they_are_written_to() -> None:
    """Pages of 2 MB at most."""
    before = _resident_bytes()
    zeros = untouched_zeros((64, 1500, 640), torch.float32, torch.device("cpu"))
    zeros[5, 100:110] += 1
    assert _resident_bytes() - before < zeros.nbytes / 10
    assert zeros.shape == (64, 1500, 640) and zeros.sum() == 10 * 640


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * mmap.PAGESIZE


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux tells how memory is mapped")
def test_memory_is_private() -> None:
    """Of shared memory most systems grant nothing in large pages."""
    piece = Arena().take(1 << 26)
    address = piece.data_ptr()
    for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
        bounds, permissions, *_ = line.split()
        first, beyond = (int(bound, 16) for bound in bounds.split("-"))
        if first <= address < beyond:
            assert permissions == "rw-p"
            return
    raise AssertionError("it is mapped nowhere")
