"""GPUs of this machine: which pod has which, also after a restart."""

from pathlib import Path

import pytest

from muster.embedded.node.gpus import Gpus


@pytest.fixture
def gpus(tmp_path: Path) -> Gpus:
    return machine(tmp_path)


def machine(directory: Path) -> Gpus:
    return Gpus(["0", "1", "2", "3"], {"here"}, lambda uid: directory / uid)


def test_the_lowest_that_are_free(gpus: Gpus) -> None:
    assert gpus.take("a", "main", "here", 2) == ["0", "1"]
    assert gpus.take("b", "main", "here", 1) == ["2"]
    gpus.give_back("a")
    assert gpus.take("c", "main", "here", 2) == ["0", "1"]
    assert gpus.take("d", "main", "here", 2) == ["3"], "no more than there are"


def test_a_container_that_starts_again_has_what_it_had(gpus: Gpus) -> None:
    assert gpus.take("a", "main", "here", 2) == gpus.take("a", "main", "here", 2) == ["0", "1"]


def test_no_two_containers_share_one(gpus: Gpus) -> None:
    assert gpus.take("a", "one", "here", 1) == ["0"]
    assert gpus.take("a", "two", "here", 2) == ["1", "2"]
    assert gpus.take("b", "one", "here", 1) == ["3"]


def test_an_init_container_that_has_ended_leaves_its_gpus_to_those_after_it(
    tmp_path: Path, gpus: Gpus
) -> None:
    assert gpus.take("a", "warm", "here", 4) == ["0", "1", "2", "3"]
    gpus.done("a", "warm")
    gpus.done("a", "other")
    gpus.done("unknown", "warm")
    assert gpus.take("a", "main", "here", 2) == ["0", "1"]
    again = machine(tmp_path)
    again.restore("a")
    assert again.take("b", "main", "here", 4) == ["2", "3"]


def test_simulated_nodes_give_none(gpus: Gpus) -> None:
    assert gpus.take("a", "main", "pretended", 2) == []
    assert gpus.take("a", "main", "here", 0) == []
    assert Gpus([], set(), Path).take("a", "main", "here", 1) == []


def test_a_restart_knows_which_pod_has_which_gpu(tmp_path: Path, gpus: Gpus) -> None:
    gpus.take("a", "main", "here", 2)
    later = machine(tmp_path)
    later.restore("a")
    assert later.take("b", "main", "here", 1) == ["2"]
    assert later.take("a", "main", "here", 2) == ["0", "1"]


def test_pods_of_one_shared_device_have_one_gpu_which_no_pod_has_whole(tmp_path: Path, gpus: Gpus) -> None:
    assert gpus.take("whole", "main", "here", 1) == ["0"]
    assert gpus.share("a", "here", 0) == gpus.share("b", "here", 0) == gpus.share("a", "here", 0) == "1"
    assert gpus.share("c", "here", 7) == "2"
    assert gpus.take("more", "main", "here", 2) == ["3"]
    assert gpus.share("d", "here", 1) == "", "nothing is left to be another device"
    gpus.give_back("a")
    later = machine(tmp_path)
    for pod in ("whole", "b", "c", "more"):
        later.restore(pod)
    assert later.share("e", "here", 0) == "1"
    later.give_back("b")
    later.give_back("e")
    assert later.take("last", "main", "here", 1) == ["1"]
    assert gpus.share("f", "pretended", 0) == ""


@pytest.mark.parametrize("text", ["", "{", "5", "[1]", '{"whole": 1}'])
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "gpus.json").write_text(text)
    gpus = machine(tmp_path)
    gpus.restore("a")
    assert gpus.take("a", "main", "here", 1) == ["0"]
