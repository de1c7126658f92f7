from __future__ import annotations

from talkahead.serving.segment_queue import SegmentQueue


def test_openings_go_first_and_long_texts_by_turns() -> None:
    queue: SegmentQueue[str] = SegmentQueue()
    for index in range(1, 4):
        queue.put(index, f"long {index}")
    queue.put(0, "newcomer")
    queue.put(1, "other 1")
    queue.close()
    taken = [queue.take() for _ in range(6)]
    assert taken == ["newcomer", "long 1", "other 1", "long 2", "long 3", None]


def test_equal_segments_keep_their_order() -> None:
    queue: SegmentQueue[object] = SegmentQueue()
    items = [object() for _ in range(5)]
    for item in items:
        queue.put(0, item)
    assert [queue.take() for _ in items] == items
