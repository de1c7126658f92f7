"""Windows tile an utterance exactly once, whatever the sizes and whenever the end comes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.engine.windows import Cut, WindowPlan

PLANS = st.builds(
    WindowPlan,
    context=st.integers(0, 40),
    lookahead=st.integers(0, 5),
    first_chunk_frames=st.integers(1, 40),
    chunk_frames=st.integers(1, 40),
)


def cuts(plan: WindowPlan, frames: int, bursts: list[int], *, is_told_late: bool = False) -> list[Cut]:
    """Cut as frames arrive in bursts, each time as far as possible; the end is known with the last frame, or
    when nothing comes after it."""
    done: list[Cut] = []
    start = have = 0
    arrivals = iter(bursts)
    while not (done and done[-1].is_last):
        had, have = have, min(have + next(arrivals, frames), frames)
        ended = have == (had if is_told_late else frames)
        while cut := plan.cut(start, len(done), have, ended=ended):
            assert cut.beyond <= have
            done.append(cut)
            start = cut.stop
            if cut.is_last:
                break
    return done


@given(PLANS, st.integers(1, 200), st.lists(st.integers(1, 30)))
@settings(max_examples=300, deadline=None)
def test_windows_tile_the_utterance_once(plan: WindowPlan, frames: int, bursts: list[int]) -> None:
    done = cuts(plan, frames, bursts)
    assert done[0].start == 0 and done[-1].stop == frames
    assert all(before.stop == after.start for before, after in pairwise(done))
    assert all(cut.new > 0 for cut in done)
    assert [cut.is_last for cut in done] == [False] * (len(done) - 1) + [True]


@given(PLANS, st.integers(1, 200), st.lists(st.integers(1, 30)))
@settings(max_examples=300, deadline=None)
def test_each_window_has_the_surroundings_that_exist(
    plan: WindowPlan, frames: int, bursts: list[int]
) -> None:
    for cut in cuts(plan, frames, bursts):
        assert cut.context == min(plan.context, cut.start)
        assert cut.lookahead == (0 if cut.is_last else plan.lookahead)


@given(PLANS, st.integers(1, 200), st.lists(st.integers(1, 30)))
@settings(max_examples=300, deadline=None)
def test_windows_grow_to_the_full_size(plan: WindowPlan, frames: int, bursts: list[int]) -> None:
    done = cuts(plan, frames, bursts)
    assert [cut.new for cut in done[:-1]] == [plan.size(chunk) for chunk in range(len(done) - 1)]
    assert done[-1].new <= plan.size(len(done) - 1) + plan.held_back


def test_the_ramp() -> None:
    plan = WindowPlan(context=20, lookahead=2, first_chunk_frames=2, chunk_frames=25)
    assert [plan.size(chunk) for chunk in range(6)] == [2, 4, 8, 16, 25, 25]
    assert plan.frames_needed(0, 0) == 4


def test_nothing_is_cut_before_its_frames_exist() -> None:
    plan = WindowPlan(context=20, lookahead=0, first_chunk_frames=4, chunk_frames=8)
    assert plan.cut(0, 0, frames=4, ended=False) is None  # the fifth frame proves that this is not the end
    assert plan.cut(0, 0, frames=4, ended=True) == Cut(0, 0, 4, 4, is_last=True)
    assert plan.cut(0, 0, frames=5, ended=False) == Cut(0, 0, 4, 4, is_last=False)


@given(PLANS, st.integers(1, 200), st.lists(st.integers(1, 30)), st.booleans())
@settings(max_examples=300, deadline=None)
def test_windows_do_not_depend_on_when_frames_come_and_the_end_is_known(
    plan: WindowPlan, frames: int, bursts: list[int], is_told_late: bool
) -> None:
    """A draft brings several frames in a step, and the end with the last of them; how much is drafted depends
    on the load. Sums over other windows differ in their last bits."""
    one_by_one = cuts(plan, frames, [1] * frames, is_told_late=True)
    assert cuts(plan, frames, bursts, is_told_late=is_told_late) == one_by_one
