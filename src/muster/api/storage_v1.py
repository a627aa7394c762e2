"""The storage group: StorageClasses, with the mode that says when a claim is bound to a volume."""

from typing import Final

from muster.api.base import Resource

#: The binding mode of classes that wait until a pod with the claim has a node.
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"


class StorageClass(Resource, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
