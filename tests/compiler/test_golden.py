"""Every kind of object that a job is compiled to, as it was last reviewed, and as its project defines it.

`MUSTER_WRITE_GOLDEN=1 pytest tests/compiler/test_golden.py` writes the files anew; the difference is what to
review.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from muster.api.base import Object
from muster.compiler import Facts
from muster.compiler.facts import SharedService, SharedVolume
from tests.compiler.crds import schemas
from tests.workloads.batch.jobs import changed, compiled

GOLDEN: Final = Path(__file__).with_name("golden")
JOB: Final = (GOLDEN / "job.yaml").read_text()
SHARED: Final[dict[str, Any]] = {
    "services": {("data", "features"): SharedService(("ml/*",), {"app": "features"}, {80: 8080})},
    "volumes": {("ml", "sets"): SharedVolume("sets", ("ml/*",))},
}
NAMED: Final = {
    "spec/resources/s3": None,
    "spec/tasks/work/workload/containers/trainer/variables/S3": None,
    "spec/tasks/serve/workload/resources/console": None,
}
#: target, facts, changes of the job
VARIANTS: Final[dict[str, tuple[str, Facts, dict[str, Any]]]] = {
    "muster": ("muster", Facts(istio=True, **SHARED), {}),
    "plain": ("muster", Facts(network="plain", **SHARED), NAMED),
    "volcano": ("volcano", Facts(**SHARED), {"spec/topology": {"mode": "Hard", "maxTier": 1}}),
    "cron": ("volcano", Facts(**SHARED), {"spec/schedule": "0 2 * * *", "spec/timeZone": "Europe/Berlin"}),
    "native": ("native", Facts(**SHARED), {"spec/queue": None}),
}


def emitted() -> dict[str, list[Object]]:
    """Kind and group → its objects. Of the variants, each adds the kinds that those before do not emit."""
    found: dict[str, list[Object]] = {}
    for target, facts, change in VARIANTS.values():
        result = compiled(changed(JOB, change), target=target, facts=facts)
        assert not result.problems, result.problems
        known = set(found)
        for each in (*result.support, *result.jobs):
            group = each["apiVersion"].rpartition("/")[0] or "core"
            if (key := f"{each['kind']}.{group}") not in known:
                found.setdefault(key, []).append(each)
    return found


EMITTED: Final = emitted()
KINDS: Final = (
    *("AuthorizationPolicy.security.istio.io", "CiliumNetworkPolicy.cilium.io", "ConfigMap.core"),
    *("CronJob.batch.volcano.sh", "ExternalSecret.external-secrets.io", "Job.batch.volcano.sh"),
    *("JobSet.jobset.x-k8s.io", "NetworkPolicy.networking.k8s.io", "PersistentVolumeClaim.core"),
    *("PodGroup.scheduling.k8s.io", "PodGroup.scheduling.x-k8s.io", "Service.core"),
    *("ServiceAccount.core", "ServiceEntry.networking.istio.io", "TracingPolicyNamespaced.cilium.io"),
)


def test_every_kind_is_emitted() -> None:
    assert tuple(sorted(EMITTED)) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_objects_are_as_they_were_reviewed(kind: str) -> None:
    text = yaml.safe_dump_all(json.loads(json.dumps(EMITTED[kind])), sort_keys=True)  # without aliases
    file = GOLDEN / f"{kind}.yaml"
    if os.environ.get("MUSTER_WRITE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def test_there_is_no_file_without_a_kind() -> None:
    assert {file.stem for file in GOLDEN.glob("*.yaml")} == {*KINDS, "job"}


FOREIGN: Final = [
    kind for kind in KINDS if kind.partition(".")[2] not in ("core", "networking.k8s.io", "scheduling.k8s.io")
]


@pytest.mark.parametrize("kind", FOREIGN)
def test_objects_are_as_their_projects_define_them(kind: str) -> None:
    for each in EMITTED[kind]:
        if (schema := schemas().get((each["apiVersion"], each["kind"]))) is None:
            pytest.skip("its definition is not in Go's module cache; see tests/compiler/crds.py")
        validator = jsonschema.Draft202012Validator(schema)
        assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(each)] == []
