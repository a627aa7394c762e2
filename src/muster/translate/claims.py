"""Which PersistentVolumeClaims pods use, by name in their specs and templates, and what of them matters."""

from collections.abc import Iterator

from muster.api.base import Object, Resource, at
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod, PodSpec
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.storage_v1 import SELECTED_NODE, StorageClass


def claim_names(spec: PodSpec) -> Iterator[str]:
    """Yields the names of the PersistentVolumeClaims that its volumes use."""
    for volume in spec.volumes:
        if name := claim_name(volume):
            yield name


def claim_name(volume: Object) -> str:
    """Returns the claim that a volume uses; "" for other kinds of volume."""
    source = volume.get("persistentVolumeClaim")
    return str(source.get("claimName", "")) if isinstance(source, dict) else ""


def volume_facts(obj: Resource) -> object:
    """Returns the fields of a claim, volume or class that affect pods, or the node that a claim is for."""
    return where_usable(obj), obj.metadata.annotations.get(SELECTED_NODE)


def where_usable(obj: Resource) -> object:
    """Returns the fields of a claim, volume or class that say where pods can use a volume."""
    deleted = obj.metadata.deletion_timestamp is not None
    if isinstance(obj, StorageClass):
        return deleted, obj.volume_binding_mode, obj.provisioner, obj.allowed_topologies
    return deleted, getattr(obj, "spec", None)


def templates(jobset: JobSet) -> list[Object]:
    """Returns the pod templates, as JSON."""
    return [at(replicated.template, "spec", "template") for replicated in jobset.spec.replicated_jobs]


def claims_of(obj: Resource) -> set[str]:
    """Returns the claims that a pod, or the pods of a Job or JobSet, use; nothing for other objects.

    Templates are read as JSON, without being checked: of one that is refused, this may name too many.
    """
    if isinstance(obj, Pod):
        return {*claim_names(obj.spec)} if obj.spec.volumes else _NONE
    made = [obj.spec.template] if isinstance(obj, Job) else templates(obj) if isinstance(obj, JobSet) else []
    found: list[object] = [at(template, "spec").get("volumes") for template in made]
    volumes = [volume for some in found if isinstance(some, list) for volume in some]
    return {name for volume in volumes if isinstance(volume, dict) and (name := claim_name(volume))}


_NONE: set[str] = set()
