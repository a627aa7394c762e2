"""Computes a Job's demand (places of one shape) from its template; says whether the Job is a gang.

Used for Jobs that are gangs of their own and for the Jobs of JobSets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from muster import names
from muster.api import groups
from muster.api.base import Object, ObjectMeta, at
from muster.api.batch_v1 import JobSpec
from muster.api.core_v1 import PodTemplate
from muster.api.fields import InvalidObject, convert
from muster.core.words.gang import Amounts, Code, Gate, Labels, Shape
from muster.translate import marks
from muster.translate.pods import asked, labels_of, scheduling_gates
from muster.translate.priority import may_preempt, of_template
from muster.translate.quotas import charged
from muster.translate.quotas import refusal as quota_refusal
from muster.translate.surroundings import Made
from muster.translate.world import World


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of one Job: so many places of one shape."""

    shape: Shape
    places: int
    priority: int = 0
    #: Invalid: the Job must not be started at all
    refusal: Gate | None = None
    #: scheduling gates in the template
    gates: str = ""
    #: labels of its pods that are the same on all of them
    labels: Labels = ()
    #: by ResourceQuota that counts for its pods: the charge for one pod
    quotas: tuple[tuple[str, Amounts], ...] = ()
    #: why the API server would not create its pods, whatever a quota has left
    forbidden: Gate | None = None
    #: metadata of the template
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    preempts: bool = True
    #: seconds from the Job's start after which the Job controller ends it
    limit: float | None = None


def demand(spec: JobSpec, world: World, made: Made) -> Demand:
    """Returns the demand of a Job with this spec, whose pods are created as `made` says."""
    places = spec.places
    try:
        template = convert(spec.template, PodTemplate, at=("spec", "template"))
    except InvalidObject as error:
        return Demand(Shape(requests=()), places, refusal=Gate(Code.INVALID, str(error)))
    template = replace(template, spec=world.created(template.spec, made.namespace))
    shape, refusal = asked(template, world, made)
    number = of_template(template.spec, world)
    if isinstance(number, Gate):
        refusal, number = refusal or number, 0
    if not world.ours(template.spec.scheduler_name):
        refusal = Gate(
            Code.INVALID, f"its pods are scheduled by {template.spec.scheduler_name or 'default-scheduler'}"
        )
    elif (group := groups.named(template)) is not None:
        refusal = Gate(
            Code.INVALID,
            f"its pods name the {group.dialect.kind.kind} {group.name}, and {names.GANG} makes it a gang of "
            "its own; take one away",
        )
    refusal = marks.refusal(template.metadata, of_pods=True) or refusal
    labels = labels_of({**template.metadata.labels, **made.labels})
    gates = scheduling_gates(template.spec)
    quotas = world.quotas_in(made.namespace) if refusal is None else []
    return Demand(
        shape,
        places,
        number,
        refusal,
        gates,
        labels,
        charged(quotas, template.spec),
        quota_refusal(quotas, template.spec),
        template.metadata,
        may_preempt(template.spec, world),
        spec.active_deadline_seconds,
    )


@dataclass(frozen=True, slots=True)
class Part:
    """One pod set: `replicas` Jobs of one demand."""

    demand: Demand
    replicas: int

    @property
    def count(self) -> int:
        return self.replicas * self.demand.places


def job_spec(template: Object) -> JobSpec:
    """Returns the spec of a JobTemplate; raises InvalidObject."""
    return convert(template.get("spec", {}), JobSpec, at=("spec",))


def asks_for_gang(meta: ObjectMeta, templates: Sequence[Object], world: World) -> bool:
    """Whether a Job or JobSet is to be a gang. Its own mark overrides its namespace's.

    A namespace's mark does not apply if the pods name a PodGroup: they belong to that group instead.
    `templates` are pod templates as JSON, since this function runs for every change of every pod.
    """
    if world.schedulers is not None and not any(world.ours(_scheduler(one)) for one in templates):
        return False
    own = marks.own_gang(meta)
    if own is not None:
        return own
    if not marks.namespace_gang(meta.namespace, world):
        return False
    return not any(map(groups.named_in, templates))


def _scheduler(template: Object) -> str:
    return str(at(template, "spec").get("schedulerName", ""))
