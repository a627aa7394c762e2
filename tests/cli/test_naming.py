"""Which jobs the verbs take for a name: a table of all verbs, in this process, without a host."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.api import kinds
from muster.api.base import Object
from muster.api.groups import POD_GROUP
from muster.app.wiring.cluster import Target
from muster.app.wiring.state_directory import StateDirectory
from muster.cli import asking, steering
from muster.cli.errors import failure
from muster.cli.main import app
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.client import Client
from muster.names import SUBMITTED_FROM
from muster.workloads.jobfile import Source
from tests.app.records.test_past import job

OLD, NEW, OTHER, OVER = "train-0000000a", "train-0000000b", "sweep-0000000c", "train-0000000d"
#: The verbs that take a job for a name, with what they need besides. These only look; without a name, too.
LOOK = ("get", "why", "timeline", "logs")
#: These change a job,
CHANGE = ("hold", "release", "set --priority 3")
#: and these end its pods.
END = ("cancel", "requeue")


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The state directory with two unfinished runs of a file, one of another, and a finished run."""
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    StateDirectory.of_user().make()

    @contextmanager
    def attached(target: Target) -> Iterator[None]:
        yield None

    @asynccontextmanager
    async def acting(target: Target, endpoint: None = None) -> AsyncIterator[Client]:
        yield LocalClient(Registry(opened))

    monkeypatch.setattr(asking, "possible", lambda: False)
    for module in (steering, "muster.app.wiring.cluster"):
        for name, instead in (("attached", attached), ("acting", acting)):
            if isinstance(module, str):
                monkeypatch.setattr(f"{module}.{name}", instead)
            else:
                monkeypatch.setattr(module, name, instead)
    with closing(Store(StateDirectory.of_user().store)) as opened:
        asyncio.run(filled(LocalClient(Registry(opened))))
        yield opened


async def filled(client: LocalClient) -> None:
    for name in (OVER, OLD, NEW, OTHER):
        await client.create(kinds.JOB, "default", job(name))
        await client.patch(kinds.JOB, "default", name, submitted(name[-8:]))
    complete = {"conditions": [{"status": "True", "type": "Complete"}]}
    await client.patch(kinds.JOB, "default", OVER, {"status": complete}, subresource="status")


def submitted(suffix: str) -> Object:
    """What muster records on a job that it submits, of a file whose generated names end so."""
    source = Source("/here/job.yaml", "me@here", suffix=suffix)
    return {"metadata": {"annotations": {SUBMITTED_FROM: source.annotation()}}}


class Done:
    def __init__(self, words: str) -> None:
        result = CliRunner().invoke(app, words.split())
        self.out, self.code = result.stdout, result.exit_code
        self.err = result.stderr
        if isinstance(result.exception, Exception):
            known = failure(result.exception)
            assert known is not None, result.exception
            self.err, self.code = self.err + str(known), known.exit_code
        self.text = self.out + self.err


def verb(verb: str, *names: str) -> Done:
    word, *options = verb.split(" ", 1)
    return Done(" ".join([word, *names, *options]))


@pytest.mark.parametrize("each", [*LOOK, *CHANGE])
def test_a_verb_takes_the_newest_job_and_says_which_of_how_many(each: str) -> None:
    done = verb(each, "train")
    assert done.code == 0
    assert f"note: {NEW}, the newest of 3 jobs that match train" in done.err
    assert NEW in done.text
    assert OLD not in done.text


@pytest.mark.parametrize("each", [*LOOK, *CHANGE, *END])
@pytest.mark.parametrize(("name", "job"), [(OLD, OLD), (OTHER, OTHER), ("sweep", OTHER)])
def test_a_whole_name_is_enough_and_needs_no_remark(each: str, name: str, job: str) -> None:
    done = verb(each, name)
    assert done.code == 0
    assert job in done.text
    assert "note:" not in done.text


@pytest.mark.parametrize("each", [*LOOK, *CHANGE])
def test_a_verb_takes_several_jobs(each: str) -> None:
    done = verb(each, OLD, OTHER)
    assert done.code == 0
    assert done.text.index(OLD) < done.text.index(OTHER)


@pytest.mark.parametrize("each", LOOK)
def test_a_verb_that_only_looks_takes_the_newest_of_all_jobs_without_a_name(each: str) -> None:
    done = verb(each)
    assert done.code == 0
    assert f"note: {OTHER}, the newest of 4 jobs" in done.err


@pytest.mark.parametrize("each", [*LOOK, *CHANGE, *END])
def test_an_unknown_name_and_an_empty_one_change_nothing(each: str) -> None:
    done = verb(each, OLD, "nosuch")
    assert (done.code, "no job named nosuch" in done.err or "no pod nosuch" in done.err) == (2, True)
    assert there() == {OLD, NEW, OTHER, OVER}
    assert "name of the job is empty" in str(failure(raised([each.split(" ")[0], ""])))
    assert there() == {OLD, NEW, OTHER, OVER}


def raised(words: list[str]) -> Exception:
    more = ["--priority", "3"] if words[0] == "set" else []
    error = CliRunner().invoke(app, words + more).exception
    assert isinstance(error, Exception)
    return error


def there() -> set[str]:
    async def names() -> set[str]:
        with closing(Store.open_read_only(StateDirectory.of_user().store)) as store:
            return {each.metadata.name for each in (await LocalClient(Registry(store)).list(kinds.JOB)).items}

    return asyncio.run(names())


@pytest.mark.parametrize("each", END)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "train",
            f"2 jobs match train: {OLD} (waiting for 0s), {NEW} (waiting for 0s). Name one of them in full",
        ),
        ("t", "2 jobs match t: "),
        ("s", f"s is the beginning of {OTHER} (waiting for 0s). Name it in full, or write --all"),
    ],
)
def test_a_verb_that_ends_jobs_takes_no_prefix_and_no_several_jobs_unasked(
    each: str, name: str, told: str
) -> None:
    done = verb(each, name)
    assert done.code == 2
    assert told in done.err.replace("1s", "0s").replace("2s", "0s")
    assert there() == {OLD, NEW, OTHER, OVER}


@pytest.mark.parametrize("each", END)
@pytest.mark.parametrize("by_muster", [False, True])
@pytest.mark.parametrize("name", ["exp-20261128", "exp-20261", "exp-deadbeef", "exp-20261128-r1"])
def test_a_name_that_ends_in_hex_digits_is_no_run_of_what_is_before_them(
    store: Store, each: str, by_muster: bool, name: str
) -> None:
    """As its author has written it, for muster or kubectl; unless a name was generated."""
    client = LocalClient(Registry(store))
    asyncio.run(client.create(kinds.JOB, "default", job(name)))
    if by_muster:
        asyncio.run(client.patch(kinds.JOB, "default", name, submitted("0a1b2c3d")))
    done = verb(each, "exp")
    assert done.code == 2
    assert f"exp is the beginning of {name}" in done.err
    assert name in there()
    assert verb(each, name).code == 0
    generated = job("gen-20261")
    generated["metadata"]["generateName"] = "gen-"
    asyncio.run(client.create(kinds.JOB, "default", generated))
    assert verb(each, "gen").code == 0


def test_all_that_match_are_cancelled_if_that_is_written() -> None:
    assert verb("cancel --all", "t").out.splitlines() == [f"{OLD} cancelled", f"{NEW} cancelled"]
    assert there() == {OTHER, OVER}, "one that has finished stays while others are unfinished"
    assert verb("cancel --all").out == f"{OTHER} cancelled\n"
    assert there() == {OVER}
    assert verb("cancel --all").out == "", "nothing is unfinished"
    assert verb("cancel", "train").out == f"{OVER} cancelled\n", "its file's name, and no other job's"


@pytest.mark.parametrize(("answer", "left"), [(True, {OLD, OTHER, OVER}), (False, {OLD, NEW, OTHER, OVER})])
def test_who_can_be_asked_is_asked(monkeypatch: pytest.MonkeyPatch, answer: bool, left: set[str]) -> None:
    asked: list[str] = []

    def agreed(question: str) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(asking, "possible", lambda: True)
    monkeypatch.setattr(asking, "agreed", agreed)
    assert verb("cancel", "train").code == 0
    assert asked[0].endswith(f"Is the newest, {NEW}, to be cancelled?")
    assert there() == left


@pytest.mark.parametrize("words", ["cancel a b", "cancel"])
def test_groups_that_only_their_pods_name_are_each_cancelled(store: Store, words: str) -> None:
    """Such a group has no uid."""
    client = LocalClient(Registry(store))
    for group in ("a", "b"):
        meta: Object = {"name": f"{group}-0", "labels": {POD_GROUP.label: group}}
        spec: Object = {"containers": [{"name": "c", "image": "i"}]}
        asyncio.run(client.create(kinds.POD, "default", {"metadata": meta, "spec": spec}))
    told = Done(f"{words} --all").out.splitlines()
    assert {"a cancelled", "b cancelled"} <= {*told}
    assert not asyncio.run(client.list(kinds.POD)).items


def test_without_names_a_cluster_s_jobs_are_not_cancelled() -> None:
    assert "--all needs a name" in Done("cancel --all --context prod").err
    assert "name the jobs to cancel" in Done("cancel").err


def test_a_word_after_a_job_is_its_pod_or_another_job() -> None:
    done = Done(f"logs {OLD} {OTHER}")
    assert [line for line in done.out.splitlines() if line.endswith(":")] == [f"{OLD}:", f"{OTHER}:"]


def test_why_of_a_cron_job_says_when_it_runs_next(store: Store) -> None:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": job("x")["spec"]}}
    cron = {"metadata": {"name": "nightly"}, "spec": spec}
    asyncio.run(LocalClient(Registry(store)).create(kinds.CRON_JOB, "default", cron))
    out = Done("why nightly").out.splitlines()
    assert out[:2] == ["nightly · scheduled", "  schedule @daily"]
    assert out[2].startswith("  the next run is at ")
    assert "no job named nightly" in Done("cancel nightly").err
