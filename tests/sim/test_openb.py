"""Lists of nodes and pods of the openb trace: what is read, what is drawn, what is refused."""

from collections import Counter
from math import inf
from pathlib import Path

import pytest

from muster.core.words.gang import NodeTerm, Operator, Requirement, Shape
from muster.names import GPU, GPU_PRODUCT, GPU_SHARE
from muster.sim.engine import replay
from muster.sim.experiment import Experiment, prepare, run
from muster.sim.metrics import Recorder
from muster.sim.policies import policy
from muster.sim.readers.openb import NODE_LIST, NODES, PODS, Openb, begins
from muster.sim.trace import Job, Tally, TraceError, capacity, survey

MACHINES = ("n0,64000,262144,2,P100", "n1,96000,393216,8,G2", "n2,96000,393216,8,T4")
ASKED = (
    "p0,12000,16384,1,1000,,LS,Running,0,1,0",
    "p1,6000,12288,1,460,,LS,Running,0,1,0",
    "p2,4000,0,0,0,,BE,Failed,0,1,",
    "p3,32000,65536,8,1000,G2|T4,LS,Running,0,1,0",
)


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    (tmp_path / NODE_LIST).write_text("\n".join((",".join(NODES), *MACHINES)) + "\n")
    return write(tmp_path / "pods.csv", *ASKED)


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join((",".join(PODS), *rows)) + "\n")
    return path


def jobs(trace: Openb) -> list[Job]:
    return list(trace.jobs(Tally()))


def test_pods_ask_for_whole_gpus_a_share_or_none(pods: Path) -> None:
    trace = Openb([pods])
    assert trace.nodes[0].name == "n0"
    assert dict(trace.nodes[0].capacity) == {"cpu": 64_000, "memory": 262_144 * 2**20, GPU: 2}
    assert trace.nodes[0].labels == ((GPU_PRODUCT, "P100"),)
    assert capacity(trace.nodes, trace.resource) == 18_000
    models = (NodeTerm((Requirement(GPU_PRODUCT, Operator.IN, ("G2", "T4")),)),)
    assert [job.pod_sets[0].shape for job in jobs(trace)] == [
        Shape((("cpu", 12_000), ("memory", 16_384 * 2**20), (GPU, 1))),
        Shape((("cpu", 6_000), ("memory", 12_288 * 2**20), (GPU_SHARE, 460))),
        Shape((("cpu", 4_000),)),
        Shape((("cpu", 32_000), ("memory", 65_536 * 2**20), (GPU, 8)), affinity=models),
    ]
    assert [(job.submitted, job.size, job.run_time, job.waits) for job in jobs(trace)] == [
        (0, 1000, inf, False),
        (1, 460, inf, False),
        (2, 0, inf, False),
        (3, 8000, inf, False),
    ]
    assert survey(trace).offered(18_000) == 9460 / 18_000


@pytest.mark.parametrize("columns", [PODS[:5], tuple(name for name in PODS if name != "gpu_spec")])
def test_a_list_without_models_is_read_without_them(pods: Path, columns: tuple[str, ...]) -> None:
    """The trace's `multigpu` lists have but the first five columns."""
    rows = [dict(zip(PODS, row.split(","), strict=True)) for row in ASKED]
    table = [columns, *([row[name] for name in columns] for row in rows)]
    pods.write_text("".join(",".join(row) + "\n" for row in table))
    assert begins(",".join(columns))
    shapes = [job.pod_sets[0].shape for job in jobs(Openb([pods]))]
    assert shapes[3] == Shape((("cpu", 32_000), ("memory", 65_536 * 2**20), (GPU, 8)))
    with pytest.raises(TraceError, match="expected one list of pods"):
        Openb([pods, write(pods.with_name("others.csv"), *ASKED)])


def test_a_node_without_gpus_has_no_model(pods: Path) -> None:
    """As in the trace's list of all nodes."""
    (pods.parent / NODE_LIST).write_text("\n".join((",".join(NODES), *MACHINES, "n3,32000,262144,0,")) + "\n")
    node = Openb([pods]).nodes[-1]
    assert (node.name, node.labels, dict(node.capacity)) == (
        "n3",
        (),
        {"cpu": 32_000, "memory": 262_144 * 2**20},
    )


@pytest.mark.parametrize("header", [PODS[:4], (*PODS[:5], "colour"), (*PODS[:5], "qos", "qos"), NODES[:4]])
def test_other_headers_are_not_of_openb(header: tuple[str, ...]) -> None:
    assert not begins(",".join(header))


def test_a_seed_draws_the_order_of_pods_and_nodes(pods: Path) -> None:
    trace = Openb([pods])
    shapes = Counter(job.pod_sets for job in jobs(trace))
    one, same, other = trace.drawn(1, None), trace.drawn(1, None), trace.drawn(2, None)
    first = jobs(one)
    assert (one.nodes, first) == (same.nodes, jobs(same))
    assert (one.nodes, first) != (other.nodes, jobs(other))
    assert Counter(job.pod_sets for job in first) == shapes
    assert {node.name.split("-", 1)[1] for node in one.nodes} == {"n0", "n1", "n2"}
    assert sorted(node.name[0] for node in one.nodes) == ["0", "1", "2"]


@pytest.mark.parametrize(("load", "least"), [(0.3, -1.0), (1.0, 0.4), (3.0, 2.5)])
def test_arrivals_are_tuned_to_a_load(pods: Path, load: float, least: float) -> None:
    drawn = jobs(Openb([pods]).drawn(7, load))
    asked = sum(job.size for job in drawn) / 18_000
    assert least < asked <= load
    assert len({job.id for job in drawn}) == len(drawn)


def test_a_replay_drops_what_does_not_fit_and_means_over_the_end(pods: Path) -> None:
    trace = Openb([pods])
    asked = Experiment(trace, "pack", (1, 2, 3), load=2.0)
    report = run(asked, prepare(asked))
    ratio = report.metrics["allocation_ratio"]
    assert report.drawn
    assert ratio.mean is not None
    assert 0.4 < ratio.mean <= 1
    assert len(set(ratio.per_seed)) > 1
    drawn = trace.drawn(1, 2.0)
    recorder = Recorder(18_000)
    replay(policy("pack")(), drawn.nodes, drawn.jobs(Tally()), recorder, resource=GPU)
    assert recorder.dropped > 0
    assert recorder.submitted == recorder.running + recorder.dropped == report.results[0].submitted
    assert recorder.dropped == report.results[0].stranded
    asked_in_the_end = sum(job.size for job in trace.drawn(1, 2.0).jobs(Tally())) / 18_000
    assert recorder.allocation_at(round(100 * asked_in_the_end)) == ratio.per_seed[0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("p9,1,1", "line 6: 3 columns; expected 11: name,cpu_milli"),
        (",1,1,0,0,,,,,,", "line 6, column 1 (name): ''; expected a name"),
        ("p9,x,1,0,0,,,,,,", "line 6, column 2 (cpu_milli): 'x' is not a number"),
        ("p9,-1,1,0,0,,,,,,", "line 6, column 2 (cpu_milli): '-1' is too small"),
        ("p9,4294967296,1,0,0,,,,,,", "column 2 (cpu_milli): '4294967296'; expected 2147483647 at most"),
        ("p9,1,1.5,0,0,,,,,,", "line 6, column 3 (memory_mib): '1.5' is not a whole number"),
        ("p9,1,1,1,1001,,,,,,", "line 6, column 5 (gpu_milli): '1001'; expected 1000 at most"),
        ("p9,1,1,2,500,,,,,,", "column 5 (gpu_milli): '500'; expected 1000, as it asks for 2 GPUs"),
        ("p9,1,1,1,0,,,,,,", "column 5 (gpu_milli): '0'; expected 1 to 1000 with a GPU, 0 without"),
        ("p9,1,1,0,5,,,,,,", "column 5 (gpu_milli): '5'; expected 1 to 1000 with a GPU, 0 without"),
    ],
)
def test_a_row_that_cannot_be_read_says_what_was_expected(pods: Path, row: str, said: str) -> None:
    write(pods, *ASKED, row)
    with pytest.raises(TraceError) as error:
        jobs(Openb([pods]))
    assert f"pods.csv, {'' if said.startswith('line') else 'line 6, '}{said}" in str(error.value)
    tally = Tally()
    assert len(list(Openb([pods], skip_bad=True).jobs(tally))) == 4
    assert tally.bad == 1


def test_nodes_that_cannot_be_read_are_left_out_and_counted_as_well(pods: Path) -> None:
    rows = ("n0,9000,9000,2,T4", "n0,1,1,1,T4", "n1,-1,1,1,T4", "n2,9000,9000,1,T4")
    (pods.parent / NODE_LIST).write_text("\n".join((",".join(NODES), *rows)) + "\n")
    trace, tally = Openb([pods], skip_bad=True), Tally()
    assert [node.name for node in trace.nodes] == ["n0", "n2"]
    assert len(list(trace.drawn(1, None).jobs(tally))) == 4
    assert (tally.bad, "line 3, column 1 (sn): there is a node" in tally.first_bad) == (2, True)


def test_a_pod_is_listed_once(pods: Path) -> None:
    lines = pods.read_text().splitlines(keepends=True)
    pods.write_text("".join([*lines, lines[1]]))
    name = lines[1].partition(",")[0]
    with pytest.raises(
        TraceError, match=rf"line {len(lines) + 1}, column 1 \(name\): there is a pod '{name}' a"
    ):
        jobs(Openb([pods]))
    tally = Tally()
    assert len(list(Openb([pods], skip_bad=True).jobs(tally))) == len(lines) - 1
    assert tally.bad == 1


def test_the_lists_are_distinguished_by_their_headers(pods: Path) -> None:
    elsewhere = pods.parent / NODE_LIST
    assert Openb([elsewhere, pods]).nodes == Openb([pods]).nodes
    with pytest.raises(TraceError, match="expected one list of pods"):
        Openb([elsewhere])
    with pytest.raises(TraceError, match="expected one list of pods"):
        Openb([pods, pods])
    elsewhere.write_text(f"{','.join(NODES)}\nn0,1,1,1,T4\nn0,1,1,1,T4\n")
    with pytest.raises(TraceError, match=r"line 3, column 1 \(sn\): there is a node 'n0' already"):
        Openb([pods])
    elsewhere.write_text(f"{','.join(NODES)}\nn0,1,1,0,T4\n")
    with pytest.raises(TraceError, match=r"the nodes have no nvidia.com/gpu"):
        Openb([pods])
    elsewhere.write_text("nodes\n")
    with pytest.raises(TraceError, match="line 1: 'nodes'; expected the header sn,cpu_milli"):
        Openb([pods])
    elsewhere.unlink()
    with pytest.raises(TraceError, match=r"there is no openb_node_list_gpu_node.csv beside it"):
        Openb([pods])
