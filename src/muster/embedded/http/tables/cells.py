"""The columns of each kind, as Kubernetes, or the definition of the kind, has them.

Source: kubernetes, pkg/printers/internalversion/printers.go; the printer columns of the kinds of others:
kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go, and scheduler-plugins,
apis/scheduling/v1alpha1/types.go.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from muster.api import groups, kinds
from muster.api.base import Kind, Object
from muster.api.crd import COLUMNS as DEFINED
from muster.api.crd import WIDE
from muster.api.scheduling_v1beta1 import DISRUPTION_TARGET, INITIALLY_SCHEDULED, SCHEDULED, UNSCHEDULABLE
from muster.embedded.http.tables import ages, pods
from muster.embedded.http.tables.column import AGE, NAME, Column, age_of, at, condition

_NONE: Final = "<none>"
#: Columns of definitions that are shown with `-o wide` only; the last one is Volcano's.
_WIDE: Final = WIDE | {"QUEUE"}
_UNSET: Final = "<unset>"
_ROLE: Final = "node-role.kubernetes.io/"
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def columns(kind: Kind[Any]) -> tuple[Column, ...]:  # Any: a kind out of the table of all kinds
    """The columns of the kind: name and age if it has none of its own."""
    return COLUMNS.get(kind, (NAME, AGE))


def _node_status(node: Object, now: datetime) -> str:
    ready = condition("Ready")(node, now)
    status = {None: "Unknown", "True": "Ready"}.get(ready, "NotReady")
    return f"{status},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else status


def _roles(node: Object, now: datetime) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} - {""}
    return ",".join(sorted(roles)) or _NONE


def _address(type_: str) -> Column:
    def read(node: Object, now: datetime) -> str:
        for address in (node.get("status") or {}).get("addresses") or ():
            if address.get("type") == type_:
                return str(address.get("address"))
        return _NONE

    return Column(type_.replace("IP", "-IP"), read, 1)


def _kernel(node: Object, now: datetime) -> str:
    about = (node.get("status") or {}).get("nodeInfo") or {}
    architecture = f" ({about['architecture']})" if about.get("architecture") else ""
    return (about.get("kernelVersion") or ages.UNKNOWN) + architecture


def _job_status(job: Object, now: datetime) -> str:
    for type_, status in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition(type_)(job, now) == "True":
            return status
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition(type_)(job, now) == "True":
            return type_
    return "Running"


def _completions(job: Object, now: datetime) -> str:
    spec, done = job.get("spec") or {}, (job.get("status") or {}).get("succeeded", 0)
    if (wanted := spec.get("completions")) is not None:
        return f"{done}/{wanted}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Object, now: datetime) -> str:
    status = job.get("status") or {}
    return ages.between(status.get("startTime"), status.get("completionTime") or now)


def _containers(field: str) -> Column:
    def read(job: Object, now: datetime) -> str:
        template = (job.get("spec") or {}).get("template") or {}
        containers = (template.get("spec") or {}).get("containers") or ()
        return ",".join(container.get(field, "") for container in containers)

    return Column({"name": "Containers", "image": "Images"}[field], read, 1)


def _selector(path: str) -> Column:
    labels, rules = at(f"{path}.matchLabels", {}), at(f"{path}.matchExpressions", ())

    def read(obj: Object, now: datetime) -> str:
        terms = [f"{key}={value}" for key, value in sorted(labels(obj, now).items())]
        for rule in rules(obj, now):
            key, values = rule.get("key"), f"({','.join(rule.get('values') or ())})"
            terms.append(
                {"In": f"{key} in {values}", "NotIn": f"{key} notin {values}", "Exists": f"{key}"}.get(
                    rule.get("operator"), f"!{key}"
                )
            )
        return ",".join(terms) or _NONE

    return Column("Selector", read, 1)


def _ports(service: Object, now: datetime) -> str:
    ports = (service.get("spec") or {}).get("ports") or ()
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or _NONE


def _pairs(service: Object, now: datetime) -> str:
    selector = (service.get("spec") or {}).get("selector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or _NONE


def _event_times(event: Object) -> tuple[Any, Any]:  # Any: JSON
    """When it was seen first, and last."""
    first = event.get("firstTimestamp") or event.get("eventTime")
    return first, (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or first


def _event_object(event: Object, now: datetime) -> str:
    about = event.get("involvedObject") or {}
    kind, name = about.get("kind", "").lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def _event_source(event: Object, now: datetime) -> str:
    source = event.get("source") or {}
    parts = (
        source.get("component") or event.get("reportingComponent"),
        source.get("host") or event.get("reportingInstance"),
    )
    return ", ".join(part for part in parts if part)


def _event_count(event: Object, now: datetime) -> int:
    return int((event.get("series") or event).get("count") or 1)


def _amounts(limits: bool) -> Column:
    """The used and hard amounts of a quota, of limits or of all else."""

    def read(quota: Object, now: datetime) -> str:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return Column("Limit" if limits else "Request", read)


def _size(*fields: str) -> Column:
    return Column("Data", lambda obj, _: sum(len(obj.get(field) or ()) for field in fields))


def _modes(path: str) -> Column:
    read = at(path, ())
    return Column(
        "Access Modes", lambda obj, now: ",".join(_MODES.get(each, each) for each in read(obj, now))
    )


def _volume_phase(obj: Object, now: datetime) -> Any:  # Any: JSON
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return at(".status.phase")(obj, now)


def _claim(volume: Object, now: datetime) -> str:
    claim = (volume.get("spec") or {}).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _policy(group: Object, now: datetime) -> str:
    return "Gang" if "gang" in ((group.get("spec") or {}).get("schedulingPolicy") or {}) else "Basic"


def _group_status(group: Object, now: datetime) -> str:
    found = {each["type"]: each for each in (group.get("status") or {}).get("conditions") or []}
    if DISRUPTION_TARGET in found:
        return str(found[DISRUPTION_TARGET].get("reason", ""))
    scheduled = found.get(INITIALLY_SCHEDULED)
    if scheduled is None:
        return "Pending"
    return SCHEDULED if scheduled.get("status") == "True" else UNSCHEDULABLE


def _claim_state(claim: Object, now: datetime) -> str:
    deleted, status = claim["metadata"].get("deletionTimestamp"), claim.get("status") or {}
    if not status.get("allocation"):
        return "deleted" if deleted else "pending"
    reserved = ["reserved"] if status.get("reservedFor") else []
    return ",".join([*(["deleted"] if deleted else []), "allocated", *reserved])


def _of_definition(rows: Iterable[tuple[str, str, str]]) -> tuple[Column, ...]:
    """The columns of a CustomResourceDefinition: name, type, path."""
    return (
        NAME,
        *(
            Column(
                name,
                age_of(path) if type_ == "date" else at(path, None),
                int(name in WIDE or name == "QUEUE"),
                type_,
            )
            for name, type_, path in rows
        ),
    )


_POD_GROUP: Final = _of_definition(
    (
        ("Phase", "string", ".status.phase"),
        ("MinMember", "integer", ".spec.minMember"),
        ("Running", "integer", ".status.running"),
        ("Succeeded", "integer", ".status.succeeded"),
        ("Failed", "integer", ".status.failed"),
        ("Age", "date", ".metadata.creationTimestamp"),
    )
)

#: Any: kinds of many types.
COLUMNS: Final[dict[Kind[Any], tuple[Column, ...]]] = {
    kinds.POD: pods.COLUMNS,
    kinds.NODE: (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _roles),
        AGE,
        Column("Version", at(".status.nodeInfo.kubeletVersion")),
        _address("InternalIP"),
        _address("ExternalIP"),
        Column("OS-Image", at(".status.nodeInfo.osImage", ages.UNKNOWN), 1),
        Column("Kernel-Version", _kernel, 1),
        Column("Container-Runtime", at(".status.nodeInfo.containerRuntimeVersion", ages.UNKNOWN), 1),
    ),
    kinds.NAMESPACE: (NAME, Column("Status", at(".status.phase")), AGE),
    kinds.JOB: (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _completions),
        Column("Duration", _job_duration),
        AGE,
        _containers("name"),
        _containers("image"),
        _selector(".spec.selector"),
    ),
    kinds.CRON_JOB: (
        NAME,
        Column("Schedule", at(".spec.schedule")),
        Column("Timezone", at(".spec.timeZone")),
        Column("Suspend", at(".spec.suspend")),
        Column("Active", lambda obj, now: len((obj.get("status") or {}).get("active") or [])),
        Column("Last Schedule", age_of(".status.lastScheduleTime")),
        AGE,
    ),
    kinds.JOBSET: (
        NAME,
        Column("TerminalState", at(".status.terminalState", None)),
        Column("Restarts", at(".status.restarts", None)),
        Column("Completed", condition("Completed")),
        Column("Suspended", at(".spec.suspend", None)),
        AGE,
    ),
    kinds.EVENT: (
        Column("Last Seen", lambda event, now: ages.since(_event_times(event)[1], now)),
        Column("Type", at(".type")),
        Column("Reason", at(".reason")),
        Column("Object", _event_object),
        Column("Subobject", at(".involvedObject.fieldPath"), 1),
        Column("Source", _event_source, 1),
        Column("Message", lambda event, now: str(event.get("message", "")).strip()),
        Column("First Seen", lambda event, now: ages.since(_event_times(event)[0], now), 1),
        Column("Count", _event_count, 1),
        NAME._replace(priority=1),
    ),
    kinds.SERVICE: (
        NAME,
        Column("Type", at(".spec.type")),
        Column("Cluster-IP", at(".spec.clusterIP", _NONE)),
        Column("External-IP", lambda *_: _NONE),
        Column("Port(s)", _ports),
        AGE,
        Column("Selector", _pairs, 1),
    ),
    kinds.CONFIG_MAP: (NAME, _size("data", "binaryData"), AGE),
    kinds.SECRET: (NAME, Column("Type", at(".type")), _size("data"), AGE),
    kinds.RESOURCE_QUOTA: (NAME, _amounts(limits=False), _amounts(limits=True), AGE),
    kinds.LIMIT_RANGE: (NAME, Column("Created At", at(".metadata.creationTimestamp"))),
    kinds.PERSISTENT_VOLUME: (
        NAME,
        Column("Capacity", at(".spec.capacity.storage")),
        _modes(".spec.accessModes"),
        Column("Reclaim Policy", at(".spec.persistentVolumeReclaimPolicy")),
        Column("Status", _volume_phase),
        Column("Claim", _claim),
        Column("StorageClass", at(".spec.storageClassName")),
        Column("VolumeAttributesClass", at(".spec.volumeAttributesClassName", _UNSET)),
        Column("Reason", at(".status.reason")),
        AGE,
        Column("VolumeMode", at(".spec.volumeMode", _UNSET), 1),
    ),
    kinds.PERSISTENT_VOLUME_CLAIM: (
        NAME,
        Column("Status", _volume_phase),
        Column("Volume", at(".spec.volumeName")),
        Column("Capacity", at(".status.capacity.storage")),
        _modes(".status.accessModes"),
        Column("StorageClass", at(".spec.storageClassName")),
        Column("VolumeAttributesClass", at(".spec.volumeAttributesClassName", _UNSET)),
        AGE,
        Column("VolumeMode", at(".spec.volumeMode", _UNSET), 1),
    ),
    kinds.STORAGE_CLASS: (
        NAME,
        Column("Provisioner", at(".provisioner")),
        Column("ReclaimPolicy", at(".reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", at(".volumeBindingMode", "Immediate")),
        Column("AllowVolumeExpansion", at(".allowVolumeExpansion", False)),
        AGE,
    ),
    kinds.RUNTIME_CLASS: (NAME, Column("Handler", at(".handler")), AGE),
    kinds.PRIORITY_CLASS: (
        NAME,
        Column("Value", at(".value", 0), 0, "integer"),
        Column("Global-Default", at(".globalDefault", False), 0, "boolean"),
        AGE,
        Column("PreemptionPolicy", at(".preemptionPolicy")),
    ),
    kinds.RESOURCE_SLICE: (
        NAME,
        Column("Node", at(".spec.nodeName")),
        Column("Driver", at(".spec.driver")),
        Column("Pool", at(".spec.pool.name")),
        AGE,
    ),
    kinds.RESOURCE_CLAIM: (NAME, Column("State", _claim_state), AGE),
    kinds.PDB: (
        NAME,
        Column("Min Available", at(".spec.minAvailable", "N/A")),
        Column("Max Unavailable", at(".spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", at(".status.disruptionsAllowed", 0), 0, "integer"),
        AGE,
    ),
    kinds.LEASE: (NAME, Column("Holder", at(".spec.holderIdentity")), AGE),
    **dict.fromkeys(kinds.POD_GROUPS, _POD_GROUP),
    groups.VOLCANO.kind: _of_definition(
        (
            ("STATUS", "string", ".status.phase"),
            ("minMember", "integer", ".spec.minMember"),
            ("RUNNINGS", "integer", ".status.running"),
            ("AGE", "date", ".metadata.creationTimestamp"),
            ("QUEUE", "string", ".spec.queue"),
        )
    ),
    kinds.QUEUE_VOLCANO: _of_definition((("PARENT", "string", ".spec.parent"),)),
    groups.NATIVE.kind: (
        NAME,
        Column("Policy", _policy),
        Column("Workload", at(".spec.workloadRef.workloadName", _NONE)),
        Column("Status", _group_status),
        AGE,
    ),
    **{kind: _of_definition(DEFINED[kind.kind]) for kind in kinds.DEFINED},
}
