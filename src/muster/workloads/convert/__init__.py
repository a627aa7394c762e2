"""Converts the gangs of a file from one dialect to another: PodGroups of any project, and marked JobSets.

    found = convert(content, "train.yaml", groups.VOLCANO)
    found.objects    # what to print, in the order of the file
    found.findings   # what is lost, or to be known

Only what makes pods a gang changes: the objects of groups, the keys by which pods name them, and the marks of
Jobs and JobSets. All else passes as it is. A loss is a warning. What muster still reads, but the scheduler of
the other dialect does not, is a note.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

from muster.api import fields, groups, kinds
from muster.api.base import Object, at
from muster.api.fields import Finding, Path, Severity
from muster.api.groups import Asked, Dialect
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.layers import Chain
from muster.api.natural import natural
from muster.api.rules.podgroup import validate_job
from muster.workloads import annotate, kubernetes, load, source
from muster.workloads.convert import jobs, naming, topology
from muster.workloads.convert.pod_groups import as_row, disobeyed, is_of_others, only_muster
from muster.workloads.convert.units import Member, Unit, marked_within, members, read
from muster.workloads.demand import MAX_PLACES
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Item, Options

#: What may be converted to: marked JobSets and Jobs, and the groups that pods name.
TARGETS: Final = (groups.JOBSET, *(row for row in groups.NAMED if row.spec is not None))
#: A group: its dialect, its namespace and its name.
Key = tuple[Dialect, str, str]


class Converted(NamedTuple):
    #: JSON: objects of any kind
    objects: list[Any]
    findings: list[Finding]


def convert(content: str | bytes, called: str, to: Dialect, scheduler: str = "") -> Converted:
    """The objects of a job file, or of any file of Kubernetes objects, with its gangs in the dialect `to`.

    `called`: the file in messages. `scheduler`: the schedulerName of the members; "": as they have it. Raises
    `JobFileError`.
    """
    text = source.decode(content, called) if isinstance(content, bytes) else content
    documents = source.parse(text, called)
    if load.format_of(documents[0]) is not kubernetes.FORMAT:
        compiled = load.load(called, Options(jobs=False, runs=False), text=text)
        units, findings = [_compiled(item) for item in compiled.items], [*compiled.notes]
    else:
        units, findings = read(documents, volcano=to is groups.VOLCANO)
    work = _Work(units, to, scheduler, findings)
    work.run()
    errors = [each for each in findings if each.severity is Severity.ERROR]
    if errors:
        raise JobFileError(errors)
    return Converted([unit.final for unit in work.result()], findings)


def _compiled(item: Item) -> Unit:
    kind = kinds.BY_NAME.get((item.object["apiVersion"], item.object["kind"]))
    return Unit(annotate.stated(item.object), item.report, kind)


@dataclass(slots=True)
class _Group:
    """A group of the file: its object, or the pods that describe it."""

    key: Key
    #: its object, or the first object with a pod that names it
    unit: Unit
    row: Dialect | None = None
    members: list[Member] = field(default_factory=list)

    @property
    def there(self) -> bool:
        return self.row is not None


class _Work:
    """One conversion, which changes the objects in place."""

    def __init__(self, units: list[Unit], to: Dialect, scheduler: str, findings: list[Finding]) -> None:
        self._units, self._to, self._scheduler, self._findings = units, to, scheduler, findings
        #: new objects by the one that they come before, and objects that are no more
        self._new: dict[Unit, list[Unit]] = defaultdict(list)
        self._gone: set[Unit] = set()
        self._members = {unit: members(unit) for unit in units}
        self._groups = self._read_groups()
        self._layers = topology.layers_of(units)
        self._namespaces = frozenset(
            unit.name
            for unit in units
            if unit.kind is kinds.NAMESPACE and annotate.mode_of(unit.object) == "gang"
        )

    def run(self) -> None:
        """Converts gangs that jobs mark, then those of groups; at last names what was passed on."""
        for unit in self._units:
            if self._to is not groups.JOBSET:
                self._group_of_job(unit)
            elif jobs.scheduled(unit):
                self._mark_scheduled(unit)
        self._owners = {key: self._owner(group) for key, group in self._groups.items()}
        self._keep_unlike_stages()
        for group in self._groups.values():
            if group.key[0] is not self._to.naming or (group.there and group.row is not self._to):
                self._convert(group)
        self._tell_passed()
        if self._scheduler:
            for unit in self.result():
                self._assign(unit)

    def result(self) -> Iterator[Unit]:
        """The objects, in the order of the file."""
        for unit in self._units:
            yield from self._new.get(unit, ())
            if unit not in self._gone:
                yield unit

    def _tell_passed(self) -> None:
        """Names each kind of which muster, or the other scheduler, reads nothing, at its first object."""
        passed: dict[tuple[str, str], list[Unit]] = {}
        for unit in self._units:
            if unit.kind is None:
                passed.setdefault((unit.type, "not read, passed as written"), []).append(unit)
                self._tell_marked(unit)
            elif is_of_others(unit.kind, self._to):
                passed.setdefault((unit.type, disobeyed(self._to)), []).append(unit)
        for (type_, why), several in passed.items():
            count = f", and {len(several) - 1} more of {type_}" if len(several) > 1 else ""
            self._tell(several[0], (), f"{several[0]}{count}: {why}", Severity.NOTE)

    def _tell_marked(self, unit: Unit) -> None:
        """Names the gangs that only muster makes, of jobs that this object will make."""
        if self._to is groups.JOBSET:
            return
        for path in marked_within(unit.object):
            told = f"is lost: a PodGroup of {self._to} would be needed for each job that {unit} makes"
            self._tell(unit, (*path, "metadata"), told)

    def _assign(self, unit: Unit) -> None:
        """Names the scheduler of the members of gangs."""
        marked = jobs.is_marked(unit, self._namespaces)
        for member in members(unit):
            if marked or naming.named(member.template) is not None:
                member.template.setdefault("spec", {})["schedulerName"] = self._scheduler

    def _read_groups(self) -> dict[Key, _Group]:
        found: dict[Key, _Group] = {}
        for unit in self._units:
            row = groups.BY_KIND.get(unit.kind) if unit.kind is not None else None
            if row is not None and row in groups.NAMED:
                if not unit.name:
                    self._tell(unit, ("metadata", "name"), "is missing", Severity.ERROR)
                key = (row.naming, unit.namespace, unit.name)
                if found.setdefault(key, _Group(key, unit, row)).unit is not unit:
                    told = f"stays as it is: pods name the one of {found[key].row}, which the file has, too"
                    self._tell(unit, ("metadata", "name"), told)
        for unit in self._units:
            for member in self._members[unit]:
                if (named := naming.named(member.template)) is not None:
                    key = (named.dialect, unit.namespace, named.name)
                    found.setdefault(key, _Group(key, unit)).members.append(member)
        return found

    def _tell(self, unit: Unit, path: Path, message: str, severity: Severity = Severity.WARNING) -> None:
        self._findings.append(unit.report(path, message, severity))

    def _convert(self, group: _Group) -> None:
        """Converts one group and its members, or tells why it stays."""
        if self._frees(group):
            for member in group.members:
                naming.take(member.template, group.key[0])
            self._gone.add(group.unit)
            return
        obj = self._object(group)
        if obj is None:
            return
        if self._to is groups.JOBSET:
            self._mark(group, obj)
            return
        made = self._made(group.unit, obj, group.row or groups.DESCRIBED, group.members)
        if group.there:
            group.unit.object, group.unit.kind = made, self._to.kind
        else:
            self._insert(group.unit, made)
        self._tell_marks(group.members)
        for member in group.members:
            self._join(member, group.key[2], group.key[0])

    def _mark_scheduled(self, unit: Unit) -> None:
        """Marks a Job of which Kubernetes' controller would make a gang."""
        if self._refused(unit):
            return
        count = sum(each.pods or 0 for each in self._members[unit])
        row, group = groups.NATIVE, jobs.scheduled_group(unit, "", count)
        asked = row.read(group)
        if not self._starts_whole(unit, f"Job {unit.name}", asked, count, ("spec", "scheduling")):
            return
        marks = self._as_row(unit, group, row, self._members[unit])
        del unit.object["spec"]["scheduling"]
        jobs.mark(unit.object, marks)

    def _refused(self, unit: Unit) -> bool:
        """Whether an API server would refuse what a Job says of its gang, which is then told."""
        found = validate_job(unit.object["spec"], None, ("spec", "scheduling"))
        for each in found:
            self._tell(unit, each.path, each.message, Severity.ERROR)
        return bool(found)

    def _starts_whole(self, unit: Unit, called: str, asked: Asked, count: int, within: Path) -> bool:
        """Whether pods may become a gang of a JobSet, which needs all of them; tells what that changes.

        `within`: the field that has those of the group's spec.
        """
        if asked.minimum > count:
            why = f"it needs {asked.minimum} pods, of which {count} are in this file"
            self._tell(unit, (), f"{called} stays as it is: {why}")
            return False
        if max(asked.minimum, 1) < count:
            told = f"is lost: a gang of a JobSet starts whole, and these are {count} pods"
            self._tell(unit, (*within, *asked.field.split(".")[1:]) if within else (), told)
        return True

    def _mark(self, group: _Group, obj: Object) -> None:
        """Marks the Job or JobSet of the pods of a group, or the JobSet that is made of pods without one."""
        dialect, _, name = group.key
        row, owner = group.row or dialect, self._owners[group.key]
        if isinstance(owner, str):
            self._tell(group.unit, (), f"{dialect.kind.kind} {name} stays as it is: {owner}")
            return
        asked = row.read(obj)
        count = sum(each.pods or 0 for each in group.members)
        within = ("spec",) if group.there else ()
        if not self._starts_whole(group.unit, f"{dialect.kind.kind} {name}", asked, count, within):
            return
        marks = self._as_row(group.unit, obj, row, group.members)
        first = group.members[0].unit
        for member in group.members:
            naming.take(member.template, dialect)
        if owner is None:
            made = jobs.jobset(name, first, group.members, self._findings)
            self._insert(first, made)
            owner_object = made
            self._gone.update(member.unit for member in group.members)
        else:
            owner_object = owner.object
        lost = jobs.mark(owner_object, marks)
        for key in lost:
            self._tell(group.unit, ("metadata",), f"{key} is lost: no JobSet or Job has it")
        if group.there:
            self._gone.add(group.unit)

    def _owner(self, group: _Group) -> Unit | str | None:
        """The Job or JobSet of all pods of a group; None for pods alone; or why it is neither."""
        owners = list(dict.fromkeys(each.unit for each in group.members))
        if not owners:
            return "its pods are not in this file"
        if GROUPS in at(group.unit.object, "metadata", "annotations"):
            return "it is one of several PodGroups of a gang, and a JobSet is a gang by itself"
        if all(owner.kind is kinds.POD for owner in owners):
            return None
        if len(owners) > 1:
            shown = ", ".join(map(str, owners[:3]))
            return f"its pods belong to several objects ({shown}); put them into one JobSet"
        [owner] = owners
        if not jobs.is_job(owner):
            return f"its pods belong to {owner}, and neither to a JobSet nor to a Job"
        every, staged = self._members[owner], jobs.staged(owner)
        mine = {id(each.template) for each in group.members}
        named = [naming.named(each.template) for each in every if id(each.template) not in mine]
        if staged and len(group.members) > 1:
            return f"{owner} starts in stages, each of which would be a gang"
        if not all(named) or (named and not staged):
            return f"not all pods of {owner} are in this gang"
        return owner

    def _keep_unlike_stages(self) -> None:
        """Keeps the groups of a JobSet that starts in stages unless it can say the same of all of them."""
        of_stages: dict[Unit, list[_Group]] = defaultdict(list)
        for group in self._groups.values():
            for owner in dict.fromkeys(each.unit for each in group.members):
                if jobs.staged(owner):
                    of_stages[owner].append(group)
        for owner, several in of_stages.items():
            said = [self._marks(group) for group in several if self._owners[group.key] is owner]
            if len(said) < len(several) or any(one is None or one != said[0] for one in said):
                why = f"{owner} starts in stages, and not all of them can be gangs with the same marks"
                self._owners |= {group.key: why for group in several if self._owners[group.key] is owner}

    def _marks(self, group: _Group) -> Object | None:
        """What a JobSet has to say of a gang, apart from its pods; None if it cannot be one of its stages."""
        if group.row is None:
            named = naming.named(group.members[0].template)
            return {} if named is not None and named.described else None
        if group.row.read(group.unit.object).minimum > sum(each.pods or 0 for each in group.members):
            return None
        layers = self._layers if topology.alone(group.unit.object, group.members) else Chain()
        made = as_row(group.unit, group.unit.object, group.row, groups.JOBSET, layers, [])
        return {where: at(made, "metadata", where) for where in ("labels", "annotations")}

    def _frees(self, group: _Group) -> bool:
        """Whether the pods of the group are no gang."""
        if group.row is None:
            return False
        return group.row.frees(fields.convert(group.unit.object, group.row.kind.type))

    def _object(self, group: _Group) -> Object | None:
        """The object of a group, or that which its pods describe; None if there is neither."""
        dialect, _, name = group.key
        if group.row is not None:
            return dict(group.unit.object)
        first = group.members[0]
        named = naming.named(first.template)
        if named is None or not named.described:
            self._tell(
                first.unit,
                (*first.path, *groups.naming(first.template)),
                f"names a {dialect.kind.kind} that is not in this file; convert its file, too",
                Severity.NOTE,
            )
            if self._to is not groups.JOBSET:
                for member in group.members:
                    self._join(member, name, dialect)
            return None
        return self._described(group, first)

    def _described(self, group: _Group, first: Member) -> Object | None:
        """The group that pods describe. Its marks stay on the pods, where they count as well."""
        dialect, _, name = group.key
        said = naming.stated(first.template, dialect)
        key = dialect.minimum[-1]
        text = said.pop(key, "")
        minimum = natural(text, MAX_PLACES)
        if minimum is None:
            told = f"{key} is {text[:80]!r}; write how many of its pods must run together"
            self._tell(first.unit, (*first.path, "metadata"), told, Severity.ERROR)
            return None
        if self._contradicted(first, group.members[1:], dialect):
            return None
        namespace = at(first.unit.object, "metadata").get("namespace", "")
        made = dialect.written(name, namespace, Asked(minimum=minimum, field=""))
        if said:
            made["metadata"]["annotations"] = said
        return made

    def _contradicted(self, first: Member, others: Iterable[Member], dialect: Dialect) -> bool:
        """Whether a pod describes its gang unlike the first one, which is then told."""
        there, found = naming.stated(first.template, dialect), False
        for other in others:
            for key, text in naming.stated(other.template, dialect).items():
                if text != there.get(key):
                    says = repr(there[key][:80]) if key in there else "nothing"
                    told = f"{key} is {text[:80]!r}, of which {first.unit} says {says}; write the same on all"
                    self._tell(other.unit, (*other.path, "metadata"), told, Severity.ERROR)
                    found = True
        return found

    def _made(self, unit: Unit, obj: Object, row: Dialect, pods: Sequence[Member]) -> Object:
        name = str(at(obj, "metadata").get("name", ""))
        if self._to.naming.label and len(name) > naming.LONGEST_LABEL:
            told = (
                f"has {len(name)} characters, and pods name it by a label, which has {naming.LONGEST_LABEL}"
            )
            self._tell(unit, ("metadata", "name"), told, Severity.ERROR)
        if GROUPS in at(obj, "metadata", "annotations") and self._to is not groups.DESCRIBED:
            told = f"joins PodGroups in muster and in Koordinator, and not in {self._to}"
            self._tell(unit, ("metadata", "annotations", GROUPS), told, Severity.NOTE)
        return self._as_row(unit, obj, row, pods)

    def _as_row(self, unit: Unit, obj: Object, row: Dialect, pods: Sequence[Member]) -> Object:
        layers = self._layers if topology.alone(obj, pods) else Chain()
        return as_row(unit, obj, row, self._to, layers, self._findings)

    def _tell_marks(self, pods: Iterable[Member]) -> None:
        """Notes what the pods of a gang, and their jobs, say that only muster obeys.

        Each key is named at the first object with it.
        """
        noted = set[str]()
        for pod in pods:
            of_owner = only_muster(pod.unit.object, self._to) if pod.path else ()
            of_pod = (((*pod.path, *path), key) for path, key in only_muster(pod.template, self._to))
            for path, key in chain(of_owner, of_pod):
                if key not in noted:
                    noted.add(key)
                    self._tell(pod.unit, path, disobeyed(self._to), Severity.NOTE)

    def _insert(self, before: Unit, made: Object) -> None:
        kind = kinds.BY_NAME[made["apiVersion"], made["kind"]]
        self._new[before].append(Unit(made, before.report, kind))

    def _join(self, member: Member, name: str, before: Dialect | None) -> None:
        """Makes pods members of a group of the dialect that is converted to."""
        if before is not None and before is not self._to.naming:
            naming.take(member.template, before)
            if (other := naming.named(member.template)) is not None and other.dialect is not self._to.naming:
                told = (
                    f"are in two gangs, {name} and {other.name} of {other.dialect}; keep one of the two marks"
                )
                self._tell(member.unit, member.path, told)
        if before is not self._to.naming:
            naming.put(member.template, self._to, name)

    def _group_of_job(self, unit: Unit) -> None:
        """Makes a group of the pods of a Job or JobSet that is marked as a gang."""
        found = self._members[unit]
        native = jobs.scheduled(unit)
        if any(naming.named(each.template) for each in found) or (native and self._to is groups.NATIVE):
            return
        if not native and not jobs.is_marked(unit, self._namespaces):
            return
        if not unit.name:
            told = "is missing, and a PodGroup has to be called by it; write a name instead of generateName"
            self._tell(unit, ("metadata", "name"), told)
            return
        if native and self._refused(unit):
            return
        namespace = at(unit.object, "metadata").get("namespace", "")
        gangs = jobs.stages(unit, found)
        marks = jobs.take_marks(unit.object)
        for name, pods in gangs:
            if (self._to.naming, unit.namespace, name) in self._groups:
                told = f"becomes a PodGroup {name}, which the file has already; rename one"
                self._tell(unit, ("metadata", "name"), told, Severity.ERROR)
            count = sum(each.pods or 0 for each in pods)
            if native:
                row, group = groups.NATIVE, jobs.scheduled_group(unit, namespace, count)
            else:
                row = groups.CREATED
                group = row.written(name, namespace, Asked(minimum=count, field=""))
            group["metadata"] |= marks
            self._insert(unit, self._made(unit, group, row, pods))
            self._tell_marks(pods)
            for each in pods:
                annotate.for_scheduler(each.template)
                self._join(each, name, None)
        if native:
            del unit.object["spec"]["scheduling"]
