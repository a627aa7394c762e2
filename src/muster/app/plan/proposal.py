"""Adds proposed objects to the hypothetical cluster, as controllers would create them at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from muster import names
from muster.api import foreign_marks, groups, kinds, rules
from muster.api.base import Kind, Object, ObjectMeta, Resource, at, controller_of
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.fields import Finding, InvalidObject, convert
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.rules import job_changes, jobset_changes, pod
from muster.api.templates import pod_templates
from muster.api.volcano_v1alpha1 import JOB_NAME
from muster.app.plan.mirror import SnapshotMirror
from muster.controllers.job import group as job_group
from muster.core.words.gang import Code, GangId, Gate
from muster.effects import Create
from muster.embedded.api_errors import invalid
from muster.embedded.verbs import admission
from muster.kube import apply
from muster.translate import job, jobset, marks, quotas
from muster.translate.world import World
from muster.workloads import demand
from muster.workloads.annotate import stated
from muster.workloads.snapshot import Name, Objects


def propose(
    snapshot: SnapshotMirror, proposed: Objects, notes: list[str], *, samples: bool = False
) -> tuple[set[str], dict[GangId, Gate]]:
    """Adds the proposed objects. Returns their uids, and the jobs that get no pods, with the reasons.

    `samples`: adds one pod for each shape of independent pods, also those of later stages and of suspended
    jobs.
    """
    # later than every existing object, so that waiting gangs precede the proposed ones
    created = datetime.fromtimestamp(snapshot.now, UTC) + timedelta(microseconds=1)
    uids: set[str] = set()
    refusals: dict[GangId, Gate] = {}
    there = []
    fresh, edits = Objects(), Objects()
    running = _of_volcano(proposed, snapshot.known)
    for key, resources in running.items():
        uids.update(each.metadata.uid for each in resources)
        there.append("/".join(key))
    for name, proposal in proposed.items.items():
        if name[1:] in running and name[0] in _MADE_OF_VOLCANO:
            continue
        old = snapshot.known.get(name)
        resource = _created(proposal, created) if old is None else applied(name[0], old, proposal)
        uids.add(resource.metadata.uid)
        if old is not None and isinstance(resource, Pod | Job | JobSet):
            there.append(resource.key)
        (fresh if old is None or _let_go(old, resource) else edits).items[name] = resource
    if there:
        shown = ", ".join(sorted(there)[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
        notes.append(f"in the cluster already, and planned with the pods they have there: {shown}")
    snapshot.put_all(edits)
    world = snapshot.mirror.world
    world.uncreated.update(each.metadata.uid for each in fresh.items.values())
    jobs = {name: each for name, each in fresh.items.items() if isinstance(each, Job | JobSet)}
    pods = {name: each for name, each in fresh.items.items() if isinstance(each, Pod)}
    others = {name: each for name, each in fresh.items.items() if name not in jobs and name not in pods}
    snapshot.put_all(Objects(others))
    completed = {name: _completed(each, world) for name, each in pods.items()}
    notes += _refused_by_quota(completed.values(), world)
    snapshot.put_all(Objects({**completed}))
    for name, owner in jobs.items():
        if _is_gang(owner, world):
            snapshot.put(name, _admitted(owner))
            continue
        foreign = marks.foreign(owner)
        notes += (f"{owner.key}: {each}" for each in foreign_marks.sentences(foreign))
        if owner.spec.suspend and not samples:
            refusals[GangId(owner.key)] = Gate(
                Code.GATED, "spec.suspend is true; set it to false to let it start"
            )
        elif not _grouped(owner) and (gate := marks.ungrouped(foreign)):
            refusals[GangId(owner.key)] = gate
        else:
            group = _group(owner) if isinstance(owner, Job) else None
            if group is not None:
                uids.add(group.metadata.uid)
                snapshot.put((groups.NATIVE.kind, group.metadata.namespace, group.metadata.name), group)
            try:
                pods_made = _pods(name, owner, group, samples=samples)
                made_of = [_completed(made, world) for made in pods_made]
            except InvalidObject as error:
                refusals[GangId(owner.key)] = Gate(Code.INVALID, str(error))
                continue
            for made in made_of:
                uids.add(made.metadata.uid)
                world.uncreated.add(made.metadata.uid)
                snapshot.put((kinds.POD, made.metadata.namespace, made.metadata.name), made)
    return uids, refusals


def _of_volcano(proposed: Objects, known: Mapping[Name, Resource]) -> dict[tuple[str, str], list[Resource]]:
    """What Volcano's controllers have made of the proposed Jobs that are theirs, by namespace and name.

    A file's Job of Volcano is proposed as the JobSet that it is compiled to, with a PodGroup of its name.
    Where the cluster has the Job, its controllers have made another PodGroup of it, and pods.
    """
    wanted = {
        (each.metadata.namespace, each.metadata.name)
        for each in proposed.items.values()
        if isinstance(each, JobSet) and _is_of_volcano(each)
    }
    found: dict[tuple[str, str], list[Resource]] = {}
    for resource in known.values() if wanted else ():
        by = controller_of(resource)
        if by is not None and kinds.VOLCANO_JOB.matches(by):
            key = resource.metadata.namespace, by.name
            if key in wanted:
                found.setdefault(key, []).append(resource)
    return found


def _is_of_volcano(jobset: JobSet) -> bool:
    templates = (at(each.template, "spec", "template") for each in jobset.spec.replicated_jobs)
    named = {at(template, "metadata", "labels").get(JOB_NAME) for template in templates}
    return named == {jobset.metadata.name}


def _refused_by_quota(pods: Iterable[Pod], world: World) -> Iterator[str]:
    """Notes the first pod that the API server would not create for a quota, if all before it are created."""
    left = dict[tuple[str, str, str], int]()
    for one in pods:
        namespace = one.metadata.namespace
        for quota in world.quotas_in(namespace) if not quotas.held(one, world) else ():
            name = quota.metadata.name
            for resource, amount in dict(quotas.charged([quota], one.spec)).get(name, ()):
                if (key := (namespace, name, resource)) not in left:
                    mine = world.in_namespace(kinds.POD, namespace)
                    room, _ = quotas.room(quota, (p for p in mine if p.metadata.uid not in world.uncreated))
                    left |= {(namespace, name, each): amount for each, amount in room}
                left[key] -= amount
                if left[key] < 0:
                    yield (
                        f"ResourceQuota {name} has too little {resource} for pod {one.key}; the API "
                        "server would refuse it, and muster submit then creates none of these objects"
                    )
                    return


def _completed(pod: Pod, world: World) -> Pod:
    """The pod as the API server creates it."""
    return msgspec.structs.replace(pod, spec=world.created(pod.spec, pod.metadata.namespace))


def _created(resource: Resource, now: datetime) -> Resource:
    meta = resource.metadata
    if meta.creation_timestamp is not None:
        return resource
    return msgspec.structs.replace(resource, metadata=msgspec.structs.replace(meta, creation_timestamp=now))


def applied(kind: Kind[Any], old: Resource, new: Resource) -> Resource:  # Any: of any kind
    """The existing object after `muster submit` (see `kube.apply`). Raises Invalid."""
    proposal, live = msgspec.to_builtins(new), msgspec.to_builtins(old)
    wanted = apply.last_applied(proposal) or stated({**proposal, "kind": kind.kind})
    before = _edited(kind, old, {})
    after, refuse = _edited(kind, old, apply.patch(live, wanted)), _CHANGES.get(kind)
    if refuse is None or not (errors := refuse(msgspec.to_builtins(after), msgspec.to_builtins(before))):
        return after
    again = _edited(kind, old, apply.patch(live, _as_admitted(wanted, apply.last_applied(live) or {}, live)))
    if refuse(msgspec.to_builtins(again), msgspec.to_builtins(before)):
        raise invalid(kind, new.metadata.name, errors)
    return again


def _as_admitted(wanted: Any, was: Any, live: Any) -> Any:  # Any: JSON
    """What is wanted as admission leaves it. It makes of an unchanged field what it made of it before."""
    if wanted == was:
        return live
    if not (isinstance(wanted, dict) and isinstance(was, dict) and isinstance(live, dict)):
        return wanted
    return {
        key: _as_admitted(value, was[key], live[key]) if key in was and key in live else value
        for key, value in wanted.items()
    }


def _edited(kind: Kind[Any], old: Resource, edit: Object) -> Resource:  # Any: of any kind
    """The edited object with defaults.

    Required fields are not checked: a slim object lacks some.
    """
    body = apply.merge(msgspec.to_builtins(old), edit)
    admission.check_structs(kind, old.metadata.name, body)
    edited: Resource = convert(rules.default(kind, body), kind.type)
    return edited


#: Kinds that a Job of Volcano becomes.
_MADE_OF_VOLCANO: Final = (kinds.JOBSET, *groups.OF_NAMED)
#: Rules for edits of existing jobs.
_CHANGES: Final[Mapping[Kind[Any], Callable[[Object, Object], list[Finding]]]] = {
    kinds.POD: pod.validate,
    kinds.JOB: job_changes.validate,
    kinds.JOBSET: jobset_changes.validate,
}


def _let_go(old: Resource, new: Resource) -> bool:
    """Whether the edit lifts the suspension of a Job or JobSet, so that its pods are created only now."""
    return (
        isinstance(old, Job | JobSet)
        and isinstance(new, Job | JobSet)
        and bool(old.spec.suspend)
        and not new.spec.suspend
    )


def _is_gang(owner: Job | JobSet, world: World) -> bool:
    if isinstance(owner, JobSet):
        return bool(jobset.keys(owner, world))
    return job.is_gang(owner, world)


def _admitted(owner: Job | JobSet) -> Job | JobSet:
    """The gang as `muster submit` creates it, so that it is planned from its templates.

    The user's own suspension stays.
    """
    if owner.spec.suspend:
        return owner
    labels = {**owner.metadata.labels, names.ADMISSION: "gang"}
    return msgspec.structs.replace(
        owner,
        metadata=msgspec.structs.replace(owner.metadata, labels=labels),
        spec=msgspec.structs.replace(owner.spec, suspend=True),
    )


def _grouped(owner: Job | JobSet) -> bool:
    """Whether pods of its templates name a group."""
    value: Object = {**msgspec.to_builtins(owner), "kind": type(owner).__name__}
    return any(groups.named_in(template) for _, template in pod_templates(value))


def _group(owner: Job) -> Resource | None:
    """The PodGroup that the Job controller makes for its pods (KEP-5547)."""
    for effect in job_group.ensure(owner, None):
        if isinstance(effect, Create) and effect.kind is groups.NATIVE.kind:
            body = {**effect.body["metadata"], "namespace": effect.namespace}
            body |= {
                "uid": f"PodGroup/{owner.metadata.uid}",
                "creationTimestamp": owner.metadata.creation_timestamp,
            }
            found: Resource = convert({**effect.body, "metadata": body}, effect.kind.type)
            return found
    return None


def _pods(name: Name, owner: Job | JobSet, of: Resource | None, *, samples: bool) -> Iterator[Pod]:
    """The pods that are created at once, each named after its place.

    `of`: the group that is made for them.
    """
    grouped = {"schedulingGroup": {"podGroupName": of.metadata.name}} if of is not None else {}
    kind, namespace, group = name
    value: Object = {**msgspec.to_builtins(owner), "kind": kind.kind}
    for pod_set in demand.pod_sets(value):
        if pod_set.stage and not samples and not _first(owner, pod_set.stage):
            continue
        set_name = pod_set.name if isinstance(owner, JobSet) else job.MAIN
        template: Mapping[str, Any] = pod_set.template  # Any: JSON
        metadata = _inheriting(template.get("metadata") or {}, owner.metadata)
        for index in range(min(pod_set.count, 1) if samples else pod_set.count):
            place = f"{group}/{set_name}-{index}"
            yield convert(
                {
                    "metadata": {
                        **metadata,
                        "name": place,
                        "namespace": namespace,
                        "uid": f"{kind.kind}/{namespace}/{place}",
                        "creationTimestamp": owner.metadata.creation_timestamp,
                    },
                    "spec": {**template.get("spec", {}), **grouped},
                },
                Pod,
            )


def _inheriting(metadata: Mapping[str, Any], owner: ObjectMeta) -> dict[str, Any]:  # Any: JSON
    """A pod's metadata, with `_INHERITED` of its Job or JobSet where the pod does not set them."""
    own = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    set_there = {key: value for key, value in (owner.annotations | owner.labels).items() if key in _INHERITED}
    fresh = {key: value for key, value in set_there.items() if key not in own}
    return {**metadata, "annotations": {**(metadata.get("annotations") or {}), **fresh}}


#: Labels and annotations of a Job or JobSet that also apply to its independent pods.
_INHERITED: Final = (names.QUEUE, names.HOLD, names.PRIORITY)


def _first(owner: Job | JobSet, stage: str) -> bool:
    """Whether a replicated job starts before any other, where they start in an order."""
    assert isinstance(owner, JobSet), "only JobSets have stages"
    replicated = owner.spec.replicated_jobs
    if owner.spec.in_order:
        return replicated[0].name == stage
    return not next(each.depends_on for each in replicated if each.name == stage)
