"""Two tenants share a cluster: nothing that muster writes for one names what the other has."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Object
from muster.core.words.decisions import Assign, Decision, Wait
from muster.runtime.budget import WriteBudget
from muster.runtime.group_events import SETTLE, GroupEvents
from muster.runtime.starts import Decisions
from muster.translate.disclosure import Disclosure
from muster.translate.status import Phase, gang_status, unschedulable
from tests.runtime.test_hostile import Watched
from tests.tiers import examples

#: In every name of the tenant, and in nothing else.
TENANTS: Final = ("alpha", "bravo")


def node(name: str, cpus: int) -> Object:
    status = {
        "allocatable": {"cpu": str(cpus), "pods": "20"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"name": name, "uid": name}, "status": status}


def queue(tenant: str) -> Object:
    spec = {"weight": 1, "allow": {"namespaces": [f"{tenant}-space"]}}
    return {"metadata": {"name": f"q{TENANTS.index(tenant)}", "uid": tenant}, "spec": spec}


def pod(tenant: str, number: int, spec: Object) -> Object:
    name = f"{tenant}-{number}"
    marks = {"muster.dev/run-time": "1h"} if spec["timed"] else {}
    containers = [{"name": "main", "resources": {"requests": {"cpu": str(spec["cpus"])}}}]
    labels = {"muster.dev/queue": f"q{spec['queue']}"} if spec["queue"] is not None else {}
    return {
        "metadata": {
            "name": name, "namespace": f"{tenant}-space", "uid": name, "resourceVersion": "1",
            "labels": labels, "annotations": marks,
            "creationTimestamp": datetime.fromtimestamp(1_700_000_000 + number, UTC).isoformat(),
        },
        "spec": {"schedulerName": "muster", "containers": containers, "priority": spec["priority"]},
        "status": {"phase": "Pending"},
    }  # fmt: skip


PODS = st.lists(
    st.fixed_dictionaries(
        {
            "tenant": st.sampled_from(TENANTS),
            "cpus": st.integers(1, 5),
            "priority": st.sampled_from([0, 0, 10]),
            "timed": st.booleans(),
            "queue": st.sampled_from([None, 0, 1]),
        }
    ),
    min_size=2,
    max_size=9,
)


class Told(Watched):
    """All that the scheduler tells users about their pods."""

    def __init__(self) -> None:
        super().__init__()
        self.names = Disclosure(self.mirror.names)
        self.events = GroupEvents(self.mirror, Decisions(), self.names, WriteBudget())

    def texts(self, decisions: list[Decision]) -> list[tuple[str, str]]:
        """By namespace, what a cycle has written there."""
        found = []
        for decision in decisions:
            self.events.write(self.now, decision)
            if isinstance(decision, Wait):
                group = self.mirror.groups[decision.gang]
                for told in (decision.explanation, self.core.asked(decision.gang)):
                    if told is None:
                        continue
                    found.append(
                        (group.namespace, json.dumps(gang_status(group, self.names, Phase.WAITING, told)))
                    )
                    for member in group.members.values():
                        now = datetime.fromtimestamp(self.now, UTC)
                        found.append(
                            (
                                group.namespace,
                                json.dumps(unschedulable(member.pod, told, self.names, now), default=str),
                            )
                        )
        for about, said in self.events.settled(self.now + SETTLE + 1):
            found.append((about["namespace"], said.message))
        return found

    def bind(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Assign):
                (place,) = decision.nodes
                group = self.mirror.groups[decision.gang]
                (member,) = group.members.values()
                body: Any = json.loads(json.dumps(self.bodies[member.pod.key]))
                body["spec"]["nodeName"] = decision.nodes[place]
                body["metadata"]["resourceVersion"] = str(int(body["metadata"]["resourceVersion"]) + 1)
                body["status"]["phase"] = "Running"
                self.put(kinds.POD, body)

    bodies: dict[str, Object]


@settings(max_examples=examples(60), deadline=None)
@given(PODS, st.integers(1, 3), st.booleans())
def test_nothing_in_a_namespace_names_what_is_in_another(
    specs: list[Object], nodes: int, queues: bool
) -> None:
    cluster = Told()
    cluster.bodies = {}
    for tenant in TENANTS:
        namespace = {"metadata": {"name": f"{tenant}-space", "uid": tenant}}
        cluster.put(kinds.NAMESPACE, namespace)
        if queues:
            cluster.put(kinds.QUEUE, queue(tenant))
    for number in range(nodes):
        cluster.put(kinds.NODE, node(f"n{number}", 4))
    texts = []
    for number, spec in enumerate(specs):
        body = pod(spec["tenant"], number, spec)
        cluster.bodies[f"{spec['tenant']}-space/{body['metadata']['name']}"] = body
        cluster.put(kinds.POD, body)
        decisions = cluster.cycle()
        texts += cluster.texts(decisions)
        cluster.bind(decisions)
    for home, text in texts:
        (stranger,) = [other for other in TENANTS if not home.startswith(other)]
        assert stranger not in text
