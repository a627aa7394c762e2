"""muster's commands and the Jobs of Volcano, on a cluster that runs Volcano's own controllers."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from muster.api.kinds import POD
from tests.cluster.conftest import Cluster
from tests.upstream import volcano as vc


async def said(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What `muster …` says, and how it ends."""
    command = [sys.executable, "-m", "muster", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)


async def listed(cluster: Cluster) -> dict[str, Any]:  # Any: JSON
    """Jobs by name, as `muster list` has them."""
    told = await said(cluster, "list", "-n", "default", "-o", "json")
    return {each["name"]: each for each in json.loads(told.stdout)}


def written(directory: Path, name: str, **spec: Any) -> str:
    """A file with a Job of Volcano of two pods."""
    cpu, pretend = spec.pop("cpu", "1"), spec.pop("pretend", "")
    body = vc.job(name, cpu, pretend, minimum=2, worker=2)
    file = directory / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **body}))
    return str(file)


async def test_jobs_are_handed_in_listed_explained_held_and_cancelled(
    volcano: Cluster, tmp_path: Path
) -> None:
    volcano.muster("fake-nodes", "4 x cpu=8,memory=64Gi")
    volcano.daemon("scheduler")
    volcano.daemon("controllers")
    handed = await said(volcano, "submit", written(tmp_path, "first"))
    assert (handed.returncode, handed.stdout) == (0, "first\n"), handed.stderr
    assert (await volcano.client.get(vc.JOB, "default", "first")).spec["minAvailable"] == 2

    async def runs() -> bool:
        return bool((await listed(volcano)).get("first", {}).get("state") == "running")

    await volcano.until("the Job runs", runs)
    jobs = await listed(volcano)
    assert [*jobs] == ["first"], "its PodGroup and its pods are no other jobs"
    assert (jobs["first"]["wanted"], jobs["first"]["running"], jobs["first"]["mode"]) == (2, 2, "gang")

    await said(volcano, "submit", written(tmp_path, "second", cpu="8"))
    await said(volcano, "submit", written(tmp_path, "third", cpu="8"))

    async def waits() -> bool:
        reason = (await listed(volcano)).get("third", {}).get("reason")
        return bool(reason) and reason["code"] == "InsufficientCapacity"

    await volcano.until("the third Job says why it waits", waits)
    why = await said(volcano, "why", "third", "-n", "default")
    assert "InsufficientCapacity" in why.stdout, why.stdout + why.stderr
    held = await said(volcano, "hold", "vcjob/third", "-n", "default")
    assert held.returncode == 0, held.stderr

    async def is_held() -> bool:
        reason = (await listed(volcano))["third"]["reason"]
        return bool(reason) and reason["code"] == "Gated"

    await volcano.until("it is held by its PodGroup", is_held)
    assert (await said(volcano, "cancel", "third", "second", "-n", "default")).returncode == 0
    assert {each.metadata.name for each in (await volcano.client.list(vc.JOB, "default")).items} == {"first"}
    pods = (await volcano.client.list(POD, "default")).items
    assert {pod.metadata.labels["volcano.sh/job-name"] for pod in pods} == {"first"}

    ended = await said(volcano, "run", written(tmp_path, "short", pretend="run=2s,exit=0"), "-n", "default")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    planned = await said(volcano, "plan", written(tmp_path, "next"), "-n", "default", "-o", "json")
    (decision,) = json.loads(planned.stdout)["decisions"]
    assert (decision["gang"], decision["outcome"], len(decision["assignments"])) == (
        "default/next",
        "place",
        2,
    )
