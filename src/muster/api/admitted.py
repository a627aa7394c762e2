"""The defaults that an API server adds to a new pod's spec, from LimitRanges and the pod's RuntimeClass.

A pod that exists has these defaults already. A template, or a pod that is only proposed, lacks them;
without them muster would take the pod for smaller than it will be.

Source: kubernetes, plugin/pkg/admission/{limitranger,runtimeclass}/admission.go and
pkg/apis/core/v1/defaults.go (SetDefaults_LimitRangeItem).
"""

from collections.abc import Iterable

import msgspec

from muster.api.core_v1 import Container, LimitRange, PodSpec, Quantities, ResourceRequirements
from muster.api.node_v1 import RuntimeClass


def admitted(spec: PodSpec, ranges: Iterable[LimitRange], runtime: RuntimeClass | None) -> PodSpec:
    """The spec as an API server would create it.

    `ranges` are the LimitRanges of the pod's namespace, `runtime` is the RuntimeClass that the spec names.
    """
    requests: Quantities = {}
    limits: Quantities = {}
    for item in [item for one in ranges for item in one.spec.limits if item.type == "Container"]:
        default = {**item.max, **item.default}
        # the first LimitRange with a default wins: the API server does not replace a value that is set
        limits = {**default, **limits}
        requests = {**item.min, **default, **item.default_request, **requests}
    changes: dict[str, object] = {}
    if requests or limits:
        changes["containers"] = [_limited(one, requests, limits) for one in spec.containers]
        changes["init_containers"] = [_limited(one, requests, limits) for one in spec.init_containers]
    if runtime is not None and runtime.overhead is not None and not spec.overhead:
        changes["overhead"] = runtime.overhead.pod_fixed
    if runtime is not None and (where := runtime.scheduling) is not None:
        changes["node_selector"] = {**where.node_selector, **spec.node_selector}
        more = [each for each in where.tolerations if each not in spec.tolerations]
        changes["tolerations"] = [*spec.tolerations, *more]
    return msgspec.structs.replace(spec, **changes) if changes else spec


def _limited(container: Container, requests: Quantities, limits: Quantities) -> Container:
    """The container with defaults added; its own limit is its request, before any default request applies."""
    own = container.resources
    stated = {**own.limits, **own.requests}
    resources = ResourceRequirements(
        requests={**requests, **stated}, limits={**limits, **own.limits}, claims=own.claims
    )
    return msgspec.structs.replace(container, resources=resources)
