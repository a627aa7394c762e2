"""The spans of starts."""

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from muster.core.words.decisions import Assign
from muster.core.words.events import CommitFailed, GangSubmitted, PodsBound
from muster.core.words.gang import Gang, GangId, NodeName, Place, PodId, PodSet, Shape
from muster.journal import Began
from muster.runtime.starts import Decisions
from muster.runtime.tracing import Spans

NODE = NodeName("n")


def test_a_start_is_a_span_from_its_decision_to_its_outcome() -> None:
    decisions, sent = Decisions(), InMemorySpanExporter()
    spans = Spans(decisions, sent)
    decisions.write(1.0, Began(7))
    for name in ("g", "h"):
        gang = GangId(f"ns/{name}")
        sets = (PodSet("main", Shape(()), 1, 1),)
        decisions.write(1.0, GangSubmitted(Gang(gang, sets, 1, submitted=0.5, queue="q")))
        decisions.write(2.0, Assign(gang, {Place("main", 0): NODE}))
    bound = PodsBound({PodId("p"): Place("main", 0)}, NODE, (), GangId("ns/g"))
    decisions.write(3.5, bound)
    decisions.write(4.0, CommitFailed(GangId("ns/h"), 9.0, "refused"))
    spans.close()
    first, second = sent.get_finished_spans()
    assert (first.start_time, first.end_time) == (2_000_000_000, 3_500_000_000)
    assert dict(first.attributes or {}) == {
        "muster.decision": "7-1",
        "muster.gang": "ns/g",
        "muster.queue": "q",
        "muster.pods": 1,
        "muster.nodes": 1,
        "muster.evicted": (),
        "muster.waited_seconds": 1.5,
        "muster.outcome": "bound",
    }
    assert (first.status.is_ok, second.status.is_ok) == (True, False)
    assert (second.attributes or {})["muster.decision"] == "7-2"
