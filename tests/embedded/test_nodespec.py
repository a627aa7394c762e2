"""The grammar of --nodes."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.embedded.nodespec import InvalidNodes, parse, read
from muster.names import GPU, GPU_PRODUCT


def test_a_node_specification_may_have_all_keys() -> None:
    nodes = parse(
        "2 x cpu=32,memory=256Gi,pods=110,nvidia.com/gpu=8,product=NVIDIA-A100-SXM4-80GB,label:zone=a; "
        "cpu=4.5,runtime=none,name=small"
    )
    assert [node.name for node in nodes] == ["node-0", "node-1", "small-0"]
    given = {"cpu": "32", "memory": "256Gi", "pods": "110", GPU: "8"}
    assert nodes[0].resources == {**given, "ephemeral-storage": "100Gi"}
    assert nodes[0].labels == {GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB", "zone": "a"}
    assert (nodes[0].runtime, nodes[2].runtime) == ("process", "none")
    assert nodes[2].resources == {"cpu": "4.5", "memory": "1Gi", "ephemeral-storage": "100Gi", "pods": 110}


def test_groups_count_on() -> None:
    assert [node.name for node in parse("2 x cpu=1; 1 x cpu=2;")] == ["node-0", "node-1", "node-2"]


def test_the_yaml_form_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(
        "- {count: 2, cpu: 32, memory: 256Gi, nvidia.com/gpu: 8, product: A100, label: {zone: a}}\n"
        "- {cpu: 1, runtime: none, 'label:zone': b}\n"
    )
    same = parse(
        "2 x cpu=32,memory=256Gi,nvidia.com/gpu=8,product=A100,label:zone=a; cpu=1,runtime=none,label:zone=b"
    )
    found = read(str(path))
    assert [(n.name, n.labels, n.runtime) for n in found] == [(n.name, n.labels, n.runtime) for n in same]
    assert [{k: str(v) for k, v in n.resources.items()} for n in found] == [
        {k: str(v) for k, v in n.resources.items()} for n in same
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "group 1 is empty"),
        ("cpu=1;;cpu=2", "group 2 is empty"),
        ("0 x cpu=1", "count '0' is not a whole number from 1 on"),
        ("-1 x cpu=1", "count '-1' is not a whole number"),
        ("many x cpu=1", "count 'many' is not a whole number"),
        ("1000000 x cpu=1", "more than 100000 nodes"),
        ("4 x", "'4 x' is not KEY=VALUE"),
        ("4 x cpu", "'cpu' is not KEY=VALUE"),
        ("4 x cpu=1,cpu=2", "cpu is given twice"),
        ("cpu=lots", "cpu: 'lots' is not a quantity"),
        ("cpu=-1", "cpu=-1: cannot be negative"),
        ("memory=1e18", "memory=1e18: more than a node can have"),
        ("memory=1e30", "memory: 1e30 is more than a quantity can be"),
        ("nvidia.com/gpu=1.5", "nvidia.com/gpu=1.5: must be a whole number"),
        ("gpus=8", "unknown key 'gpus'"),
        ("runtime=docker", "runtime=docker: choose from process, none"),
        ("product=A100", "product=A100 needs nvidia.com/gpu=COUNT"),
        ("label:a b=c", "'a b' is not a label's key"),
        ("label:a=b c", "a label's value has at most 63"),
        ("name=Big", "name 'Big'"),
    ],
)
def test_a_mistake_in_a_node_specification_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidNodes) as caught:
        parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a list of groups"),
        ("cpu: 1", "must be a list of groups"),
        ("[1]", "[0]: must be keys and values"),
        ("- {cpu: [1]}", "[0]: cpu:"),
        ("- {count: true, cpu: 1}", "count True is not a whole number"),
        ("- {", "not YAML"),
    ],
)
def test_a_mistake_in_a_file_of_nodes_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(InvalidNodes) as caught:
        read(str(path))
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InvalidNodes, match="No such file"):
        read("/no/such/nodes.yaml")


@given(st.text(max_size=40))
def test_any_text_is_nodes_or_one_error(text: str) -> None:
    with contextlib.suppress(InvalidNodes):
        assert parse(text)
