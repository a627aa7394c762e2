"""What a workload is compiled to, while it is being compiled: objects, a pod template, and problems.

A draft is applied only if it has no problems. Every object is added once under its kind and name; two inputs
that would write the same object or the same key are a problem, never a silent choice.
"""

from collections.abc import Iterable
from typing import Any, Final

from muster.api.base import Object
from muster.api.fields import Finding, Path, dotted

#: Most problems of a draft: a job with more is not mended in one go either.
MAX_PROBLEMS: Final = 100
#: Most characters that placeholders of one workload may expand to.
MAX_EXPANDED: Final = 2 * 2**20
#: Label of an object or pod: the workload that it belongs to.
NAME: Final = "app.kubernetes.io/name"


class Draft:
    """Collects what is emitted. `pod` is a PodSpec, `objects` what the pod needs before it starts."""

    def __init__(self, namespace: str, labels: dict[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.pod: Object = {}
        self.problems: list[Finding] = []
        #: characters that placeholders have expanded to
        self.expanded = 0
        #: (kind of question, answer's key) → the field of the file that made it necessary
        self.origins: dict[tuple[str, str], Path] = {}
        #: (kind, name) → the object, and the field that needs it
        self._objects: dict[tuple[str, str], tuple[Object, Path]] = {}

    @property
    def objects(self) -> list[Object]:
        """Every object, sorted by kind and name."""
        return [self._objects[key][0] for key in sorted(self._objects)]

    def problem(self, path: Path, message: str, patch: str = "") -> None:
        """Adds a problem with the field at `path`, unless the draft is `full`."""
        if not self.full:
            self.problems.append(Finding(path, message, fix=patch))

    @property
    def full(self) -> bool:
        """Whether the draft has so many problems that no further one is looked for."""
        return len(self.problems) >= MAX_PROBLEMS

    def expand(self, characters: int, path: Path) -> bool:
        """Whether placeholders may expand to so many more characters. It is a problem if they may not."""
        self.expanded += characters
        if self.expanded <= MAX_EXPANDED:
            return True
        self.problem(path, f"the task's placeholders expand to more than {MAX_EXPANDED:,} characters")
        return False

    def emit(self, version: str, kind: str, name: str, at: Path, **fields: Any) -> Object:  # Any: JSON
        """Returns the object of this kind and name: the one that exists, or a new one with these fields.

        `at` is the field of the file that needs it. It is a problem if another field needs an object of the
        same kind and name.
        """
        made: Object = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace, "labels": dict(self.labels)},
            **fields,
        }
        known, first = self._objects.setdefault((kind, name), (made, at))
        if first != at:
            self._clash(kind, name, first, at)
            return made
        return known

    def emit_shared(self, version: str, kind: str, name: str, at: Path, spec: Object) -> None:
        """Emits an object that the jobs of a namespace share: it is deleted with the last of them."""
        made = self.emit(version, kind, name, at, spec=spec)
        made["metadata"]["labels"].pop(NAME, None)

    def needed_by(self, made: Object) -> Path:
        """The field of the file that needs this object."""
        return self._objects[made["kind"], made["metadata"]["name"]][1]

    def origin(self, question: str, key: str, path: Path) -> None:
        """Records which field causes a request, for the message of a denial. The first field counts."""
        self.origins.setdefault((question, key), path)

    def join(self, other: "Draft") -> None:
        """Adds what another workload of the same job emits. A volume that both use is one claim."""
        for key, (made, at) in sorted(other._objects.items(), key=lambda each: each[0]):
            known, first = self._objects.setdefault(key, (made, at))
            if shared(made):
                try:
                    spec = {**known["spec"], **joined(known, made)}
                    self._objects[key] = {**known, "spec": spec}, first
                except ValueError as error:
                    self.problem(at, str(error))
            elif {**known, "metadata": {}} != {**made, "metadata": {}}:
                self._clash(*key, first, at)
        for question, path in other.origins.items():
            self.origins.setdefault(question, path)

    def _clash(self, kind: str, name: str, first: Path, second: Path) -> None:
        self.problem(second, f"needs a {kind} {name}, and so does {dotted(first)}; rename one of them")


def mapping(parent: Object, key: str) -> Object:
    """The mapping under `key`, made if it is absent."""
    made: Object = parent.setdefault(key, {})
    return made


def unique(values: Iterable[str]) -> list[str]:
    """The values in order, each once."""
    return list(dict.fromkeys(values))


def shared(made: Object) -> bool:
    """Whether the jobs of a namespace share this object."""
    return NAME not in made["metadata"].get("labels", {})


def joined(known: Object, made: Object) -> Object:
    """The fields of the spec of a shared object to change, so that it serves what `made` is for, too.

    A ServiceEntry gets the ports that it lacks. Raises ValueError if it is for another host, or has a port
    under another protocol: Istio would ignore one of them.
    """
    old, new = known.get("spec"), made["spec"]
    old = old if isinstance(old, dict) else {}
    if any(old.get(field) != new.get(field) for field in ("hosts", "addresses")):
        raise ValueError(f"{made['kind']} {made['metadata']['name']} is for another host")
    wanted, found = _ports(new), _ports(old)
    for number in sorted(wanted.keys() & found.keys()):
        before, now = str(found[number].get("protocol")), wanted[number]["protocol"]
        if before != now:
            [host] = new.get("addresses") or new["hosts"]
            raise ValueError(one_protocol(host, number, before, now))
    if wanted.keys() <= found.keys():
        return {}
    return {"ports": [port for _, port in sorted({**wanted, **found}.items())]}


def one_protocol(host: str, port: int, one: str, other: str) -> str:
    """What is wrong with a port of a host that is declared under two protocols."""
    return f"{host}: port {port} is declared as {one} and as {other}; a port of a host has one protocol"


def _ports(spec: Object) -> dict[int, Object]:
    """The ports of a ServiceEntry by their numbers; empty for other specs."""
    ports = spec.get("ports")
    return {
        each["number"]: each
        for each in (ports if isinstance(ports, list) else ())
        if isinstance(each, dict) and isinstance(each.get("number"), int)
    }
