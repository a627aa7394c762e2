from muster.embedded.storage.change_buffer import ChangeBuffer, Event


def event(revision: int, kind: str = "pods", size: int = 1) -> Event:
    return Event(revision, kind, "ns", f"n{revision}", b"x" * size, None, False)


def revisions(events: list[Event] | None) -> list[int] | None:
    return None if events is None else [e.revision for e in events]


def test_changes_after_a_revision_come_in_order() -> None:
    buffer = ChangeBuffer(10, 100, 10**6)
    for revision in (11, 13, 14):
        buffer.append(event(revision))
    assert revisions(buffer.since("pods", 10, 9)) == [11, 13, 14]
    assert revisions(buffer.since("pods", 12, 9)) == [13, 14]
    assert revisions(buffer.since("pods", 10, 2)) == [11, 13]
    assert revisions(buffer.since("pods", 14, 9)) == []


def test_changes_before_the_start_are_not_kept() -> None:
    buffer = ChangeBuffer(10, 100, 10**6)
    assert buffer.since("pods", 9, 9) is None
    assert buffer.since("pods", 10, 9) == []
    buffer.append(event(11))
    assert buffer.since("pods", 9, 9) is None


def test_the_oldest_go_first_by_number() -> None:
    buffer = ChangeBuffer(0, 3, 10**6)
    for revision in range(1, 8):
        buffer.append(event(revision))
    assert buffer.since("pods", 3, 9) is None
    assert revisions(buffer.since("pods", 4, 9)) == [5, 6, 7]


def test_the_oldest_go_first_by_size() -> None:
    buffer = ChangeBuffer(0, 100, 50)
    for revision in range(1, 8):
        buffer.append(event(revision, size=20))
    assert buffer.since("pods", 4, 9) is None
    assert revisions(buffer.since("pods", 5, 9)) == [6, 7]


def test_a_watcher_of_a_quiet_kind_keeps_its_place() -> None:
    buffer = ChangeBuffer(0, 3, 10**6)
    buffer.append(event(1, "nodes"))
    for revision in range(2, 50):
        buffer.append(event(revision))
    assert buffer.since("nodes", 0, 9) is None
    assert buffer.since("nodes", 1, 9) == []
