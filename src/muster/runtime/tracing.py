"""One OpenTelemetry span per start of a gang: from the decision until its places are filled, or given up.

The span's attributes name the decision as the log does, so one leads to the other. OpenTelemetry is an
optional dependency (`muster-scheduler[tracing]`): this module is imported only if spans are to be sent.
"""

from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, Status, StatusCode

from muster.core.words.gang import GangId
from muster.runtime.starts import Decisions, Outcome, Start
from muster.version import VERSION

#: Milliseconds that one batch may take to be sent, also at the end of the process.
PATIENCE: Final = 3000
_NANO: Final = 1_000_000_000


class Spans:
    """Follows the starts of `decisions`, each with a span."""

    def __init__(self, decisions: Decisions, exporter: SpanExporter) -> None:
        resource = Resource.create({"service.name": "muster-scheduler", "service.version": VERSION})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, export_timeout_millis=PATIENCE))
        self._tracer = self._provider.get_tracer("muster")
        self._open: dict[GangId, Span] = {}
        decisions.on_start.append(self._started)
        decisions.on_end.append(self._ended)

    def close(self) -> None:
        """Sends what has not been sent yet. May take `PATIENCE`."""
        self._provider.shutdown()

    def _started(self, start: Start) -> None:
        span = self._tracer.start_span(
            "start gang",
            start_time=int(start.at * _NANO),
            attributes={
                "muster.decision": start.id,
                "muster.gang": start.gang,
                "muster.queue": start.queue,
                "muster.pods": start.pods,
                "muster.nodes": start.nodes,
                "muster.evicted": list(start.victims),
            },
        )
        if start.waited is not None:
            span.set_attribute("muster.waited_seconds", start.waited)
        self._open[start.gang] = span

    def _ended(self, start: Start, at: float, outcome: Outcome) -> None:
        span = self._open.pop(start.gang, None)
        if span is not None:
            span.set_attribute("muster.outcome", outcome.value)
            if outcome is Outcome.FAILED:
                span.set_status(Status(StatusCode.ERROR))
            span.end(int(at * _NANO))


def to(endpoint: str, decisions: Decisions) -> Spans:
    """Sends spans to a URL, by OTLP over HTTP."""
    return Spans(decisions, OTLPSpanExporter(endpoint, timeout=PATIENCE / 1000))
