"""Whether a job could ever start on given nodes: the scheduler's own answer, asked beforehand."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from muster.api import kinds, quantity
from muster.api.batch_v1 import JOB_NAME, LEGACY_JOB_NAME
from muster.api.core_v1 import PodTemplate
from muster.api.fields import convert
from muster.api.jobset_v1alpha2 import JOBSET_NAME, REPLICATED_JOB_NAME
from muster.core.events import NodeChanged
from muster.core.gang import Gang, GangId, NodeName, PodSet
from muster.core.offline import misfit
from muster.local.nodespec import NodeSpec
from muster.names import GPU
from muster.translate.pods import asked, labels_of
from muster.translate.surroundings import Made
from muster.workloads import demand
from muster.workloads.jobfile import JobFile
from muster.workloads.markers import mode_of

#: Where its pods will be does not matter on an empty cluster, as long as it is one place.
_NAMESPACE: Final = "default"


def misfits(job: JobFile, nodes: Sequence[NodeChanged]) -> Iterator[str]:
    """One sentence for each part of the job that would wait for ever on these nodes."""
    for gang in _gangs(job):
        why = misfit(gang, nodes)
        if why is not None:
            yield f"{gang.id} can never start here: {why.code.value}. {why.message}"
    if any(pod_set.gpus and pod_set.count for pod_set in demand.demand(job)) and not any(
        dict(n.capacity).get(GPU) for n in nodes
    ):
        yield (
            "there are no GPUs here; a cluster in pretence has some, for example "
            f'--nodes "1 x cpu=8,memory=32Gi,{GPU}=8,product=NVIDIA-A100-SXM4-80GB"'
        )


def as_nodes(specs: Iterable[NodeSpec]) -> list[NodeChanged]:
    """Nodes to be, as the core is told of nodes."""
    return [
        NodeChanged(
            NodeName(spec.name),
            tuple(sorted((name, quantity.capacity(name, value)) for name, value in spec.resources.items())),
            tuple(sorted({**spec.labels, "kubernetes.io/hostname": spec.name}.items())),
        )
        for spec in specs
    ]


def _gangs(job: JobFile) -> Iterator[Gang]:
    """A gang for each job, or stage of a job, that is one; else one for each shape of pod, since each pod
    starts alone."""
    modes = {(o["kind"], o["metadata"]["name"]): mode_of(o) for o in job.primary}
    by_gang = groupby(demand.demand(job), key=lambda pod_set: (pod_set.owner, pod_set.stage))
    for (owner, stage), members in by_gang:
        sets = [_pod_set(member) for member in members if member.count]
        if not sets:
            continue
        if modes[owner] == "gang":
            name = "/".join(filter(None, (owner[1], stage)))
            size = sum(s.count for s in sets)
            yield Gang(GangId(name), tuple(sets), size, submitted=0.0, namespace=_NAMESPACE)
        else:
            for one in sets:
                single = PodSet(one.name, one.shape, 1, 1, labels=one.labels)
                name = f"{owner[1]}: {one.name}"
                yield Gang(GangId(name), (single,), 1, submitted=0.0, namespace=_NAMESPACE)


def _pod_set(member: demand.PodSet) -> PodSet:
    """What it asks of an empty cluster. Whose company it wants may be there or come: that is left out."""
    template = convert(member.template, PodTemplate)
    kind, name = member.owner
    added = {JOB_NAME: name, LEGACY_JOB_NAME: name} if kind == kinds.JOB.kind else {}
    if kind == kinds.JOBSET.kind:
        added = {JOBSET_NAME: name, REPLICATED_JOB_NAME: member.name}
    shape = replace(asked(template, made=Made(_NAMESPACE, added)).shape, near=())
    labels = labels_of({**template.metadata.labels, **added})
    return PodSet(member.name, shape, member.count, member.count, labels=labels)
