"""Makes sinks of what documents say: the only place that knows every type."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.domain.sinks import SinkSpec
from tidegate.ports.sinks import Sink


class SinkOpener:
    """`ports.sinks.Sinks`. `url`: of Tidegate's own database. `on_change` is called when a sink is done with a
    batch."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.on_change: Callable[[], None] = lambda: None

    def open(self, name: str, spec: SinkSpec) -> Sink:
        match spec.type:
            case "kafka":
                from tidegate.sinks.kafka import KafkaSink  # here: only who has such a sink loads librdkafka

                return KafkaSink(name, spec, self._changed)
            case "webhook":
                from tidegate.sinks.webhook import WebhookSink

                return WebhookSink(name, spec, self._changed)
            case "table":
                from tidegate.sinks.table import TableSink

                return TableSink(name, spec, self._url, self._changed)
        raise AssertionError(f"no such sink: {spec.type}")

    def _changed(self) -> None:
        self.on_change()
