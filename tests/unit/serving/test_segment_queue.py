from __future__ import annotations

from talkahead.serving.segment_queue import SegmentQueue


def test_openings_go_first_and_long_texts_in_small_batches() -> None:
    queue: SegmentQueue[str] = SegmentQueue(opening=3, continuing=2)
    for index in range(1, 5):
        queue.put(index, f"long {index}")
    queue.put(0, "newcomer")
    queue.put(1, "other 1")
    queue.close()
    assert queue.take() == ["newcomer"]
    assert queue.take() == ["long 1", "other 1"]
    assert queue.take() == ["long 2", "long 3"]
    assert queue.take() == ["long 4"]
    assert queue.take() == []


def test_equal_segments_keep_their_order() -> None:
    queue: SegmentQueue[object] = SegmentQueue(opening=8, continuing=1)
    items = [object() for _ in range(5)]
    for item in items:
        queue.put(0, item)
    assert queue.take() == items
