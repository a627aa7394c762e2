"""JobSet's own controller and webhooks, with muster as the scheduler of its pods."""

from functools import partial
from typing import Final

from muster.api.base import Object
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import JOBSET
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.upstream import pods
from tests.upstream.conftest import JOBSET_LABEL

GROUP_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"


def training(name: str, restarts: int = 0) -> Object:
    """One launcher and two Jobs of two workers, a gang of five; the least that the webhooks complete."""

    def replicated(group: str, replicas: int, count: int) -> Object:
        template = pods.template(schedulerName=SCHEDULER, restartPolicy="Never")
        job = {"parallelism": count, "completions": count, "backoffLimit": 0, "template": template}
        return {"name": group, "replicas": replicas, "template": {"spec": job}}

    return {
        "metadata": {"name": name, "labels": {"muster.dev/gang": "true"}},
        "spec": {
            "failurePolicy": {"maxRestarts": restarts},
            "replicatedJobs": [replicated("launcher", 1, 1), replicated("worker", 2, 2)],
        },
    }


async def ended(cluster: Cluster, name: str) -> JobSet | None:
    found = await cluster.client.get(JOBSET, "default", name)
    return found if found.status.terminal_state else None


async def test_it_starts_whole_restarts_whole_and_completes(jobsets: Cluster) -> None:
    """With four places for five pods none is bound. A failed Job makes all anew: these start whole, too."""
    cluster, its = jobsets, f"{JOBSET_LABEL}=train"
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "1 x name=few,cpu=4,memory=8Gi")
    await cluster.make(JOBSET, training("train", restarts=1))
    await cluster.until("it waits for a fifth place", partial(pods.lacks_room, cluster, "jobset-train"))
    assert await pods.phases(cluster, its) == ["Pending"] * 5
    cluster.muster("fake-nodes", "1 x name=more,cpu=4,memory=8Gi")
    await cluster.until("all five run", partial(pods.run, cluster, its, 5))
    first = {pod.metadata.uid for pod in await pods.pods(cluster, its)}
    await pods.end(cluster, f"{its},{GROUP_LABEL}=launcher", "Failed")

    async def again() -> bool:
        found = await cluster.client.get(JOBSET, "default", "train")
        uids = {pod.metadata.uid for pod in await pods.pods(cluster, its)}
        return found.status.restarts == 1 and not first & uids and await pods.run(cluster, its, 5)

    await cluster.until("five new pods run", again)
    await pods.end(cluster, its)
    done = await cluster.until("it has ended", partial(ended, cluster, "train"))
    assert done.status.terminal_state == "Completed"


async def test_a_failure_without_restarts_ends_it_and_its_room_is_used(jobsets: Cluster) -> None:
    cluster, first, following = jobsets, f"{JOBSET_LABEL}=first", f"{JOBSET_LABEL}=next"
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "1 x name=full,cpu=5,memory=8Gi")
    await cluster.make(JOBSET, training("first"))
    await cluster.until("the first runs", partial(pods.run, cluster, first, 5))
    await cluster.make(JOBSET, training("next"))
    await cluster.until("the next waits", partial(pods.lacks_room, cluster, "jobset-next"))
    assert await pods.phases(cluster, following) == ["Pending"] * 5
    await pods.end(cluster, f"{first},{GROUP_LABEL}=launcher", "Failed")
    done = await cluster.until("the first has ended", partial(ended, cluster, "first"))
    assert done.status.terminal_state == "Failed"
    await cluster.until("the next runs", partial(pods.run, cluster, following, 5))
