"""Makes feeds of what documents say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.domain.sources import SourceSpec
from tidegate.ports.sources import Feed, Place


class FeedOpener:
    """`ports.sources.Feeds`. `on_change` is called when a source has something."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None

    def open(self, name: str, spec: SourceSpec, places: Sequence[Place]) -> Feed:
        from tidegate.sources.kafka import KafkaFeed  # here: only who has such a source loads librdkafka

        return KafkaFeed(name, spec, places, self._changed)

    def _changed(self) -> None:
        self.on_change()
