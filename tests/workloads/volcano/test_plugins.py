"""What Volcano's plugins give the pods of a Job."""

import pytest

from muster.api.base import Object
from muster.api.fields import Severity
from muster.workloads.volcano import compiled, read
from tests.workloads.volcano.jobs import CONTAINER, job, jobset, loaded, of, pod_of, refused, spec_of, task

INDEX = "metadata.labels['batch.kubernetes.io/job-completion-index']"


def variables(made: Object, number: int = 0) -> dict[str, object]:
    """The variables of the first container: values, paths of fields, or keys of the ConfigMap."""
    found: dict[str, object] = {}
    for each in pod_of(made, number)["spec"]["containers"][0].get("env", []):
        source = each.get("valueFrom", {})
        field, key = source.get("fieldRef", {}).get("fieldPath"), source.get("configMapKeyRef", {})
        found[each["name"]] = each.get("value") or field or f"{key['name']}/{key['key']}"
    return found


def test_env_tells_a_pod_its_index() -> None:
    made = jobset(job(task("w", 2), plugins={"env": []}))
    assert variables(made) == {"VK_TASK_INDEX": INDEX, "VC_TASK_INDEX": INDEX}


def test_no_plugin_adds_nothing() -> None:
    assert variables(jobset(job(task("w", 2)))) == {}


def test_svc_tells_the_hosts_of_all_tasks() -> None:
    file = loaded(job(task("ps"), task("my-worker", 2), plugins={"svc": []}))
    data = of(file, "ConfigMap")["data"]
    hosts = ["j-my-worker-0-0.j", "j-my-worker-0-1.j"]
    assert data == {
        "ps.host": "j-ps-0-0.j",
        "VC_PS_NUM": "1",
        "VC_PS_HOSTS": "j-ps-0-0.j",
        "my_worker.host": "\n".join(hosts),
        "VC_MY_WORKER_NUM": "2",
        "VC_MY_WORKER_HOSTS": ",".join(hosts),
    }
    made = file.primary[0]
    for number in (0, 1):
        assert variables(made, number) == {key: f"j-svc/{key}" for key in data if not key.endswith(".host")}
        (mount,) = pod_of(made, number)["spec"]["containers"][0]["volumeMounts"]
        assert mount == {"name": "j-svc", "mountPath": "/etc/volcano"}
    (item,) = (each for each in file.items if each.object["kind"] == "ConfigMap")
    assert item.owned


def test_variables_come_after_those_of_the_author() -> None:
    container = CONTAINER | {"env": [{"name": "A", "value": "1"}]}
    made = jobset(job(task("w", spec={"containers": [container]}), plugins={"env": []}))
    assert list(variables(made)) == ["A", "VK_TASK_INDEX", "VC_TASK_INDEX"]


@pytest.mark.parametrize(
    ("arguments", "published"),
    [
        ([], False),
        (["--publish-not-ready-addresses"], True),
        (["-publish-not-ready-addresses=true", "--disable-network-policy=true"], True),
        (["--publish-not-ready-addresses=false"], False),
    ],
)
def test_svc_publishes_hosts_that_are_not_ready_if_asked(arguments: list[str], published: bool) -> None:
    made = jobset(job(task("w"), plugins={"svc": arguments}))
    assert made["spec"]["network"] == {"publishNotReadyAddresses": published}


def test_pytorch_ranks_the_pods_of_master_and_workers() -> None:
    made = jobset(job(task("worker", 3), task("other"), task("master"), plugins={"pytorch": []}))
    replicated = made["spec"]["replicatedJobs"]
    assert [(each["name"], each["replicas"]) for each in replicated] == [
        ("master", 1),
        ("worker", 3),
        ("other", 1),
    ]
    assert spec_of(made, 1)["completions"] == 1
    for number in (0, 1):
        found = variables(made, number)
        assert found["MASTER_ADDR"] == "j-master-0-0.j"
        assert found["WORLD_SIZE"] == "4"
        assert found["RANK"] == "metadata.labels['jobset.sigs.k8s.io/job-global-index']"
        assert found["VC_WORKER_HOSTS"] == "j-svc/VC_WORKER_HOSTS"
    assert "RANK" not in variables(made, 2)


def test_pytorch_takes_names_and_a_port() -> None:
    plugins = {"pytorch": ["--master=m", "--worker=w", "--port=23456"], "env": []}
    made = jobset(job(task("m"), task("w", 2), plugins=plugins))
    found = variables(made, 1)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("j-m-0-0.j", "23456")
    assert found["VC_TASK_INDEX"] == "metadata.labels['jobset.sigs.k8s.io/job-index']"
    file = loaded(job(task("m"), task("w", 2), plugins=plugins))
    assert of(file, "ConfigMap")["data"]["VC_W_HOSTS"] == "j-w-0-0.j,j-w-1-0.j"


def test_tensorflow_describes_the_cluster_and_the_pod() -> None:
    plugins = {"tensorflow": ["--ps=server", "--port=3000"]}
    made = jobset(job(task("server"), task("worker", 2), task("other"), plugins=plugins))
    cluster = '{"ps":["j-server-0-0.j:3000"],"worker":["j-worker-0-0.j:3000","j-worker-0-1.j:3000"]}'
    for number, role in enumerate(("ps", "worker", "other")):
        found = variables(made, number)
        config = f'{{"cluster":{cluster},"task":{{"type":"{role}","index":$(VC_TASK_INDEX)}}}}'
        assert found["TF_CONFIG"] == config
        named = [*found]
        assert named.index("VC_TASK_INDEX") < named.index("TF_CONFIG"), "a variable refers to earlier ones"
        assert "VC_WORKER_HOSTS" in found
    assert "TF_CONFIG" not in variables(jobset(job(task("worker"), plugins=plugins)))


def test_more_hosts_than_tf_config_can_list_are_refused() -> None:
    errors = refused(job(task("worker", 10_000), plugins={"tensorflow": []}))
    assert "spec.plugins.tensorflow" in {each.field for each in errors}


@pytest.mark.parametrize(
    ("plugins", "field", "told"),
    [
        ({"mpi": []}, "spec.plugins.mpi", "MPIJob"),
        ({"ray": []}, "spec.plugins.ray", "VC_*_HOSTS"),
        ({"hcclrank": []}, "spec.plugins.hcclrank", "VC_TASK_INDEX"),
        ({"pytorh": []}, "spec.plugins.pytorh", "did you mean pytorch?"),
        ({"svc": ["--publish"]}, "spec.plugins.svc", "no argument of svc"),
        ({"env": ["x"]}, "spec.plugins.env", "no argument of env"),
        ({"pytorch": []}, "spec.plugins.pytorch", "no task master"),
    ],
)
def test_what_is_not_obeyed_is_refused_by_name(plugins: dict[str, list[str]], field: str, told: str) -> None:
    (error,) = refused(job(task("w"), plugins=plugins))
    assert (error.field, told in error.message) == (field, True), error


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("train --ps j-ps-0.j:2222", "j-ps-0-0.j"),
        ("j-w-7", "j-w-0-7.j"),
        ("$VC_PS_HOSTS", ""),
        ("j-ps-0-0.j", ""),
        ("my-j-ps-0", ""),
        ("j-ps-0x", ""),
    ],
)
def test_hosts_by_volcanos_names_are_warned_of(text: str, told: str) -> None:
    container = CONTAINER | {"args": [text]}
    file = loaded(job(task("ps"), task("w", 8, spec={"containers": [container]})))
    found = [each for each in file.notes if each.severity is Severity.WARNING]
    assert [each.field for each in found] == (
        ["spec.tasks[1].template.spec.containers[0].args[0]"] if told else []
    )
    assert all(f"is {told} here" in each.message for each in found)


def test_hosts_that_no_variable_can_hold_are_in_the_file_alone() -> None:
    notes: list[str] = []
    read_job = read(job(task("w", 20_000), plugins={"svc": []}), lambda *_: None)
    assert read_job is not None
    made = compiled(read_job, lambda path, message, severity: notes.append(message))
    data = made[0].object["data"]
    assert (sorted(data), len(data["w.host"].split("\n"))) == (["VC_W_NUM", "w.host"], 20_000)
    assert any("read /etc/volcano/w.host" in each for each in notes)
    variables = pod_of(made[-1].object)["spec"]["containers"][0]["env"]
    assert [each["name"] for each in variables] == ["VC_W_NUM"]


def test_more_hosts_than_a_config_map_can_hold_are_refused() -> None:
    errors = refused(job(task("w", 90_000), plugins={"svc": []}))
    assert "spec.plugins.svc" in {each.field for each in errors}


def test_more_tasks_than_variables_allow_are_refused() -> None:
    (error,) = refused(job(*(task(f"t{number}") for number in range(65)), plugins={"svc": []}))
    assert error.field == "spec.plugins.svc"
