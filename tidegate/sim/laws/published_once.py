"""What a publisher was told is published is in the log, once, however often it was sent."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.sim.history import History, Violation

LAW = "published_once"


def check(history: History) -> Iterator[Violation]:
    seen: dict[tuple[str, str], int] = {}
    for pos, (source, name) in history.logged.items():
        if name is not None and seen.setdefault((source, name), pos) != pos:
            yield Violation(LAW, f"{source} {name} is in the log twice, at {seen[source, name]} and {pos}")
    for event, receipt in history.published:
        if history.logged.get(receipt.pos) != (event.source, event.id):
            yield Violation(LAW, f"{event.source} {event.id} was acknowledged and is not at {receipt.pos}")
    for topic, log in history.topics.items():
        if [one.n for one in log] != list(range(1, len(log) + 1)):
            yield Violation(LAW, f"the numbers of topic {topic} have gaps")
        if any(one.pos >= after.pos or one.at > after.at for one, after in zip(log, log[1:], strict=False)):
            yield Violation(LAW, f"topic {topic} is not in order")
