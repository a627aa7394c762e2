"""Groups that cannot start: ten thousand of garbage, and a kind that the cluster has in another version."""

from typing import Final

from muster.api.kinds import GANG, NODE, POD, POD_GROUP_X
from tests.cluster.conftest import CRD, Cluster, open_definition
from tests.cluster.gangs import bound, gang, member

GARBAGE: Final = 10_000


async def test_among_ten_thousand_groups_of_garbage_a_gang_starts_and_each_says_why_it_waits(
    cluster: Cluster,
) -> None:
    """Minima that no cluster has, pods that no node has room for, and groups without pods."""
    cluster.muster("fake-nodes", "1 x name=clean,cpu=8,memory=8Gi,label:test=clean")

    async def ready() -> bool:
        return len((await cluster.client.list(NODE, labels="test=clean")).items) == 1

    await cluster.until("a node", ready)
    names = [f"garbage-{number:05}" for number in range(GARBAGE)]
    minima = (2, 2**31 - 1, 1, 50_001)
    await cluster.make_all(
        POD_GROUP_X,
        (
            {"metadata": {"name": name}, "spec": {"minMember": minima[number % 4]}}
            for number, name in enumerate(names)
        ),
    )
    with_pods = names[2::20]
    await cluster.make_all(POD, (member(name, 0, "999", "clean") for name in with_pods))
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    await gang(cluster, "clean", 3, test="clean")

    async def starts() -> bool:
        return await bound(cluster, "clean") == 3

    await cluster.until("the gang starts", starts)

    async def told() -> bool:
        gangs = (await cluster.client.list(GANG, "default")).items
        reasons = {g.metadata.name: g.status.reason.code for g in gangs if g.status.reason is not None}
        return all(reasons.get(f"podgroup-{name}") == "NothingMatches" for name in with_pods)

    await cluster.until("each has its reason", told, 1.0)


async def test_a_kind_that_the_cluster_has_in_another_version_is_off_and_the_rest_is_scheduled(
    cluster: Cluster,
) -> None:
    """Its definition is replaced while muster runs. Pods of its groups say that they wait for the group."""
    cluster.muster("fake-nodes", "1 x name=version,cpu=8,memory=8Gi,label:test=version")
    definition = open_definition(POD_GROUP_X)
    (version,) = definition["spec"]["versions"]
    name = definition["metadata"]["name"]
    cluster.daemon("scheduler")
    await gang(cluster, "before", 2, test="version")

    async def before() -> bool:
        return await bound(cluster, "before") == 2

    await cluster.until("a gang starts", before)
    other = {**version, "name": "v1beta9", "storage": False}
    both = [{**version, "served": False}, other]
    try:
        await cluster.client.patch(CRD, "", name, {"spec": {"versions": both}})
        for index in range(2):
            await cluster.make(POD, member("late", index, test="version"))
        alone = member("alone", 0, test="version")
        alone["metadata"]["labels"] = {}
        await cluster.make(POD, alone)

        async def starts() -> bool:
            return bool((await cluster.client.get(POD, "default", "alone-0")).spec.node_name)

        await cluster.until("a pod of its own starts", starts)

        async def told() -> bool:
            found = (await cluster.client.get(GANG, "default", "podgroup-late")).status.reason
            return found is not None and found.code == "MembersMissing"

        await cluster.until("the gang says what it lacks", told)
        assert await bound(cluster, "late") == 0
        assert await bound(cluster, "before") == 2
    finally:
        await cluster.client.patch(CRD, "", name, {"spec": {"versions": [version]}})
    group = {"metadata": {"name": "late"}, "spec": {"minMember": 2}}

    async def made() -> bool:
        await cluster.make(POD_GROUP_X, group)
        return True

    await cluster.until("the version is served again", made)

    async def late() -> bool:
        return await bound(cluster, "late") == 2

    await cluster.until("its gang starts", late)
