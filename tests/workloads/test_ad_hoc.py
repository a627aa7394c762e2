"""A command becomes a job file that runs exactly this command, or an error that names the option."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.templates import pod_templates
from muster.embedded.node.environment import expand
from muster.workloads.ad_hoc import AdHoc, manifest, name_of, text
from muster.workloads.jobfile import Options
from muster.workloads.load import load

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
OPTIONS = Options(suffix="0" * 8)


def container(job: AdHoc) -> Object:
    """The container that its pods have once its job file has been read."""
    (obj,) = load("the command", OPTIONS, text=text(job)).objects
    ((_, template),) = pod_templates(obj)
    made: Object = template["spec"]["containers"][0]
    return made


@given(
    st.lists(WORDS.filter(bool), min_size=1, max_size=5), st.dictionaries(st.just("A"), WORDS), st.booleans()
)
def test_a_command_runs_as_it_was_typed(words: list[str], env: dict[str, str], gang: bool) -> None:
    made = container(AdHoc(tuple(words), env=env, gang=gang, count=2, queue="research"))
    assert [expand(word, {}) for word in made["command"]] == words
    own = {each["name"]: each.get("value") for each in made.get("env", [])}
    assert {name: expand(own[name], {}) for name in env} == env


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python3 train.py --lr 0.1", "train"),
        ("python3.12 -u src/my_train.v2.py", "my-train"),
        ("python3 -m pkg.fit", "fit"),
        ("uv run train.py", "train"),
        ("torchrun --nproc-per-node 8 train.py", "train"),
        ("env A=1 ./run-it.sh", "run-it"),
        ("/usr/bin/true", "true"),
        ("sh -c exit", "sh"),
        ("123", "job"),
        ("Ünï", "n"),
        (f"python3 {'x' * 99}.py", "x" * 30),
    ],
)
def test_a_job_is_named_after_what_runs(command: str, name: str) -> None:
    assert name_of(command.split()) == name


@given(st.lists(WORDS.filter(bool), min_size=1, max_size=5))
def test_any_command_names_a_job(words: list[str]) -> None:
    load("the command", OPTIONS, text=text(AdHoc(tuple(words), gang=True)))


def test_one_process_is_a_job_without_retries() -> None:
    made = manifest(AdHoc(("a",), gpus=2, cpus="4", memory="64Gi"))
    assert (made["kind"], made["spec"]["backoffLimit"]) == ("Job", 0)
    assert container(AdHoc(("a",), gpus=2, cpus="4", memory="64Gi"))["resources"] == {
        "requests": {"cpu": "4", "memory": "64Gi"},
        "limits": {"nvidia.com/gpu": 2},
    }


def test_pods_that_do_not_need_each_other_end_none_of_the_others() -> None:
    spec = manifest(AdHoc(("a",), count=3))["spec"]
    assert [spec[name] for name in ("completions", "parallelism", "backoffLimitPerIndex")] == [3, 3, 0]
    assert "backoffLimit" not in spec


def test_a_gang_is_a_jobset_with_ranks() -> None:
    (jobset,) = load("the command", OPTIONS, text=text(AdHoc(("a",), count=3, gang=True))).objects
    assert (jobset["kind"], jobset["spec"]["replicatedJobs"][0]["replicas"]) == ("JobSet", 3)
    env = {each["name"]: each.get("value") for each in container(AdHoc(("a",), count=3, gang=True))["env"]}
    assert env["WORLD_SIZE"] == "3"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"memory": "64GB"},
            "--memory 64GB: '64GB' is not a quantity; write 64Gi, or 64G for powers of 1000",
        ),
        ({"memory": "64"}, "--memory 64: is less than 1Mi; write 64Gi"),
        ({"memory": "-1Gi"}, "--memory -1Gi: must be more than 0"),
        ({"cpus": "0"}, "--cpus 0: must be more than 0"),
        ({"cpus": "lots"}, "--cpus lots: 'lots' is not a quantity"),
        ({"gpus": -1}, "--gpus -1: write 0 to 1,000"),
        ({"count": 0}, "--count 0: write 1 to"),
        ({"count": 10**9}, "--count 1000000000: write 1 to 100,000"),
        ({"name": "My_Job"}, "--name My_Job: use lowercase letters, digits and hyphens, such as my-job"),
        ({"name": "x" * 64}, "--name xxx"),
        ({"image": "\udcff"}, "is not UTF-8"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_option(wrong: Object, said: str) -> None:
    with pytest.raises(ValueError, match=r"--|UTF-8") as error:
        text(AdHoc(("a",), **wrong))
    assert str(error.value).startswith(said) or said in str(error.value)
