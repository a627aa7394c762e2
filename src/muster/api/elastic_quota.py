"""Koordinator's ElasticQuota (`scheduling.sigs.k8s.io/v1alpha1`), and the labels and annotations around it.

Koordinator knows its quotas by name alone, although the objects are in namespaces.

Source: koordinator, apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1/types.go,
apis/extension/elastic_quota.go and pkg/scheduler/plugins/elasticquota/plugin_helper.go.
"""

from typing import Final

from muster.api.base import Resource, Struct
from muster.api.core_v1 import Quantities

_PREFIX: Final = "quota.scheduling.koordinator.sh"
#: On pods: the name of the quota.
NAME: Final = f"{_PREFIX}/name"
#: On quotas, labels: the quota above, and the tree of a quota, where there are several.
PARENT: Final = f"{_PREFIX}/parent"
TREE: Final = f"{_PREFIX}/tree-id"
#: On quotas, annotations: JSON. How what is above the minima is shared, by resource; the namespaces whose
#: pods are charged to it unless they name another.
SHARED_WEIGHT: Final = f"{_PREFIX}/shared-weight"
NAMESPACES: Final = f"{_PREFIX}/namespaces"
#: What a tree has besides the cluster, and a limit besides `max`.
TOTAL: Final = f"{_PREFIX}/total-resource"
ADMISSION: Final = f"{_PREFIX}/admission"
#: Written by the scheduler: JSON, what a quota may use now, and what its pods ask for.
RUNTIME: Final = f"{_PREFIX}/runtime"
REQUEST: Final = f"{_PREFIX}/request"

#: Quotas that Koordinator creates: above all others, of pods that name none, of system pods.
ROOT: Final = "koordinator-root-quota"
DEFAULT: Final = "koordinator-default-quota"
SYSTEM: Final = "koordinator-system-quota"
#: The queues of muster that they are; "": muster needs no such queue.
OWN: Final = {ROOT: "", DEFAULT: "default", SYSTEM: ""}


class ElasticQuotaSpec(Struct, frozen=True):
    min: Quantities = {}
    max: Quantities = {}


class ElasticQuotaStatus(Struct, frozen=True):
    used: Quantities = {}


class ElasticQuota(Resource, frozen=True):
    """Its status is no subresource: who writes it writes the object."""

    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()
