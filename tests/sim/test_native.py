"""Muster's own traces: JSON and CSV say the same, and what is wrong is said with file, line and field."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.words.events import LayersChanged, NodeChanged, QueueChanged
from muster.core.words.gang import GangId, Gather, Layer, NodeName, PodSet, Queue, QueueOrder, Shape, Strategy
from muster.sim.readers.native import Native, is_journal
from muster.sim.trace import Job, Outage, Tally, TraceError
from tests.sim.traces import GPU, write
from tests.tiers import examples

SHARE = "muster.dev/gpu-share"
NODES = (
    '{"node": "big", "count": 2, "resources": {"cpu": 32, "memory": "256Gi", "nvidia.com/gpu": 8}, '
    '"labels": {"rack": "r1", "nvidia.com/gpu.product": "A100"}}\n'
    '{"node": "small", "resources": {"cpu": "1500m"}}\n'
)
RULES = (
    '{"queue": "b", "parent": "a", "weight": 3, "deserved": {"nvidia.com/gpu": 8}, "order": "fair"}\n'
    '{"queue": "a", "maxGangs": 5, "capability": {"cpu": 2}}\n'
    '{"layers": [{"name": "rack", "keys": ["rack", "old-rack"]}]}\n'
    '{"at": 20, "node": "big-0", "is": "up"}\n'
    '{"at": 10, "node": "big-0", "is": "down"}\n'
)
JOBS = (
    '{"job": "train", "submit": 0, "run": 600, "pods": [{"name": "w", "count": 4, "min": 2, '
    '"resources": {"nvidia.com/gpu": 4}}], "checkpoint": 60, "restartCost": 5, "queue": "b", "priority": 7}\n'
    '{"job": "x", "namespace": "ml", "submit": 10, "run": 50, "limit": 40, "estimate": 45, '
    '"pods": [{"resources": {"cpu": "500m"}, "gpuShare": 250}], "preemptible": false, "minRunTime": 9}\n'
    '\n{"job": "two", "submit": 10.5, "run": 100, "min": 3, "failures": [30, 2.5], "exclusive": "rack", '
    '"gather": [{"layer": "rack", "strategy": "PreferGather", "multiple": 2}], '
    '"pods": [{"name": "ps", "resources": {"cpu": 4}}, '
    '{"name": "w", "count": 3, "resources": {"nvidia.com/gpu": 4}}]}\n'
)
NODES_CSV = "node,count,cpu,memory,gpus,product,label:rack\nbig,2,32,256Gi,8,A100,r1\nsmall,,1500m,,,,\n"
OUTAGES_CSV = "at,node,is\n20,big-0,up\n10,big-0,down\n"
JOBS_CSV = (
    "job,submit,run,set,pods,pods_min,gpus,cpu,gpu_share,namespace,limit,estimate,checkpoint,restart_cost,"
    "min_run_time,priority,preemptible,min,failures\n"
    "train,0,600,w,4,2,4,,,,,,60,5,,7,,,\n"
    "x,10,50,,,,,500m,250,ml,40,45,,,9,,false,,\n"
    "two,10.5,100,ps,,,,4,,,,,,,,,,3,30;2.5\n"
    "two,,,w,3,,4,,,,,,,,,,,,\n"
)


def native(
    tmp_path: Path, *texts: str, given: tuple[NodeChanged, ...] = (), skip_bad: bool = False
) -> Native:
    paths = [write(tmp_path / f"f{number}", text) for number, text in enumerate(texts)]
    return Native(paths, given, skip_bad)


def test_json_says_it_all(tmp_path: Path) -> None:
    trace = native(tmp_path, NODES + RULES + JOBS)
    assert trace.resource == GPU
    capacity = (("cpu", 32_000), ("memory", 256 * 2**30), (GPU, 8))
    labels = (("nvidia.com/gpu.product", "A100"), ("rack", "r1"))
    assert trace.nodes == [
        NodeChanged(NodeName("big-0"), capacity, labels),
        NodeChanged(NodeName("big-1"), capacity, labels),
        NodeChanged(NodeName("small"), (("cpu", 1500),)),
    ]
    assert trace.outages == [Outage(10, NodeName("big-0"), False), Outage(20, NodeName("big-0"), True)]
    assert trace.rules == (
        LayersChanged((Layer("rack", ("rack", "old-rack")),)),
        QueueChanged(Queue("a", max_gangs=5, capability=(("cpu", 2000),))),
        QueueChanged(Queue("b", "a", 3, deserved=((GPU, 8),), order=QueueOrder.FAIR)),
    )
    train, x, two = trace.jobs(Tally())
    shape = Shape(((GPU, 4),))
    assert train == Job(
        GangId("default/train"),
        0,
        600,
        600,
        (PodSet("w", shape, 4, 2),),
        16_000,
        min_count=2,
        namespace="default",
        queue="b",
        priority=7,
        checkpoint=60,
        restart_cost=5,
        where=f"{tmp_path / 'f0'}, line 8",
    )
    assert (x.id, x.run_time, x.estimate, x.limit, x.size) == ("ml/x", 40, 45, 40, 250)
    assert (x.pod_sets[0].shape.requests, x.preemptible) == ((("cpu", 500), (SHARE, 250)), False)
    assert (two.places, two.least, two.size, two.failures) == (4, 3, 12_000, (30, 2.5))
    assert two.gather == (Gather("rack", Strategy.PREFER_GATHER, 2),)
    assert two.exclusive == "rack"


def test_csv_says_the_same_in_tables(tmp_path: Path) -> None:
    told = native(tmp_path, NODES + RULES + JOBS)
    found = [job._replace(queue="default", gather=(), exclusive="", where="") for job in told.jobs(Tally())]
    tables = native(tmp_path, NODES_CSV, OUTAGES_CSV, JOBS_CSV)
    assert (tables.nodes, tables.outages, tables.rules) == (told.nodes, told.outages, ())
    assert [job._replace(where="") for job in tables.jobs(Tally())] == found


def test_files_and_forms_mix_and_nodes_can_be_given(tmp_path: Path) -> None:
    given = (NodeChanged(NodeName("n"), (("cpu", 4000),)),)
    trace = native(
        tmp_path, '{"job": "a", "submit": 1, "run": 2}\n', "job,submit,run,cpu\nb,1,2,1\n", given=given
    )
    assert (trace.resource, trace.nodes) == ("cpu", list(given))
    assert [(job.id, job.size) for job in trace.jobs(Tally())] == [("default/a", 0), ("default/b", 1000)]


def test_quotes_and_layers_in_csv(tmp_path: Path) -> None:
    jobs = 'job,submit,run,gather,exclusive,example.com/thing\n"a, b",0,5,rack:MustGather;rack::4,rack,2\n'
    (job,) = native(tmp_path, NODES + RULES, jobs).jobs(Tally())
    assert job.id == "default/a, b"
    assert job.gather == (Gather("rack", Strategy.MUST_GATHER), Gather("rack", None, 4))
    assert job.pod_sets[0].shape.requests == (("example.com/thing", 2),)


NODE = '{"node": "n", "resources": {"cpu": 4}}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            NODE + '{"job": "a"\n',
            "line 2, column 12: not JSON: Input data was truncated; expected one object per line",
        ),
        (NODE + '{"job": "a", "submit": 0, "run": 1}}\n', "line 2, column 37: not JSON: trailing characters"),
        (NODE + "[1]\n", "line 2: expected an object"),
        (NODE + "{}\n", "line 2: none of the keys job, queue, layers, at, node; what is it?"),
        (NODE + '{"job": "a", "submit": 0}\n', "line 2, run: is missing"),
        (NODE + '{"job": "a", "submit": 0, "run": "1"}\n', "line 2, run: expected a number"),
        (NODE + '{"job": "a", "submit": -1, "run": 1}\n', "line 2, submit: expected 0 or more"),
        (
            NODE + '{"job": "a", "submit": 1e300, "run": 1}\n',
            "line 2, submit: expected 9007199254740992 at most",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "gpus": 3}\n',
            "line 2: Object contains unknown field `gpus`; known are job, submit, run, pods, min,",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"gpus": 3}]}\n',
            "line 2, pods[0]: Object contains unknown field `gpus`; known are name, count, min, resources",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"count": 0}]}\n',
            "line 2, pods[0].count: expected 1 or more",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"count": 2, "min": 3}]}\n',
            "line 2, pods[0].min: 3; there are 2",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"name": "x"}, {"name": "x"}]}\n',
            "line 2, pods[1].name: 'x' occurs twice",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"resources": {"cpu": "much"}}]}\n',
            "line 2, pods[0].resources.cpu: 'much' is not a quantity",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"resources": {"cpu": -1}}]}\n',
            "line 2, pods[0].resources.cpu: '-1' is out of range; expected 0 to 2147483.647",
        ),
        (
            NODE
            + '{"job": "a", "submit": 0, "run": 1, "pods": [{"resources": {"cpu": 99999999999999999999}}]}\n',
            "line 2, pods: a number is out of range",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"resources": {"nvidia.com/gpu": 0.5}}]}\n',
            "line 2, pods[0].resources.nvidia.com/gpu: '0.5' is not a whole number; a part of one",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"gpuShare": 1001}]}\n',
            "line 2, pods[0].gpuShare: expected 1000 at most",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "pods": [{"gpuShare": 5, "resources": '
            '{"nvidia.com/gpu": 1}}]}\n',
            "line 2, pods[0].gpuShare: 5 beside whole GPUs; ask for one of the two",
        ),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "gather": [{"layer": "r", "strategy": "Tight"}]}\n',
            "line 2, gather[0].strategy: 'Tight'; expected MustGather or PreferGather",
        ),
        (NODE + '{"queue": "a", "order": "lifo"}\n', "line 2, order: 'lifo'; expected priority or fifo or"),
        (NODE + f'{{"queue": "{"q" * 254}"}}\n', "line 2, queue: expected 253 characters at most"),
        (NODE + '{"queue": ""}\n', "line 2, queue: is empty"),
        (NODE + '{"job": "a", "submit": 0, "run": 1, "min": 2}\n', "line 2, min: 2; there are 1 pods"),
        (NODE + '{"job": "a", "submit": 0, "run": 1, "queue": "q"}\n', "line 2, queue: there is no queue q"),
        (
            NODE + '{"job": "a", "submit": 0, "run": 1, "exclusive": "rack"}\n',
            "line 2: layer rack is unknown; choose from ClusterTopologyLayer, NodeTopologyLayer",
        ),
        (
            NODE + '{"job": "a", "submit": 5, "run": 1}\n{"job": "b", "submit": 4, "run": 1}\n',
            "line 3, submit: 4 is out of order; the job before has 5",
        ),
        (
            NODE + 2 * '{"job": "a", "submit": 5, "run": 1}\n',
            "line 3, job: there is a job 'a' in namespace 'default' already; give it a name of its own",
        ),
        (
            NODE + '{"job": "a", "submit": 5, "run": 1}\n' + NODE,
            "line 3: nodes, queues, layers and outages come",
        ),
        (NODE + NODE, "line 2, node: n occurs twice"),
        ('{"job": "a", "submit": 5, "run": 1}\n', "f0: it has no nodes"),
        ('{"node": "n", "resources": {"cpu": 1e18}}\n', "line 1, resources.cpu: '1e+18' is out of range"),
        (
            '{"node": "n", "resources": {"cpu": 1e99}}\n',
            "resources.cpu: 1e+99 is more than a quantity can be",
        ),
        (NODE + '{"queue": "a", "parent": "b"}\n', "line 2: queue a: its parent b does not exist"),
        (
            NODE + '{"queue": "a", "parent": "b"}\n{"queue": "b", "parent": "a"}\n',
            "line 2: queue a: queues are in a cycle: a is below b is below a",
        ),
        (
            NODE + '{"queue": "a", "guarantee": {"cpu": 2}, "capability": {"cpu": 1}}\n',
            "line 2: queue a: its guarantee of 2 is above its capability of 1 CPU",
        ),
        (
            NODE + '{"queue": "b", "parent": "a", "guarantee": {"cpu": 2}}\n'
            '{"queue": "a", "guarantee": {"cpu": 1}}\n',
            "line 2: queue b: its guarantee of 2 CPUs is more than is left of the guarantee of its parent a",
        ),
        (
            NODE + '{"queue": "a"}\n{"queue": "b", "parent": "a"}\n'
            '{"job": "j", "submit": 0, "run": 1, "queue": "a"}\n',
            "line 4, queue: a has queues below it; name one of them",
        ),
        (
            NODE + '{"job": "j", "submit": 0, "run": 1, "queue": "root"}\n',
            "line 2, queue: there is no queue root",
        ),
        (
            NODE + '{"layers": [{"name": "a", "keys": ["k"]}, {"name": "a", "keys": ["l"]}]}\n',
            "line 2, layers[1].name: 'a' is there already",
        ),
        (
            NODE + '{"layers": [{"name": "NodeTopologyLayer", "keys": ["k"]}]}\n',
            "line 2, layers[0].name: 'NodeTopologyLayer' is there already",
        ),
        (
            NODE + 2 * '{"layers": [{"name": "a", "keys": ["k"]}]}\n',
            "line 3: layers occur twice; write all in one line",
        ),
        (NODE + '{"queue": "a"}\n{"queue": "a"}\n', "line 3: queue a occurs twice"),
        (NODE + '{"at": 1, "node": "m", "is": "down"}\n', "line 2, node: there is no node m"),
        (NODE + '{"at": 1, "node": "n", "is": "gone"}\n', "line 2, is: 'gone'; expected down or up"),
        ("", "f0: is empty; expected a header such as job,submit,run,pods,gpus"),
        ("job,submit\na,1\n", "f0, line 1: no column run; is this a header?"),
        ("job,submit,run,run\n", "f0, line 1, column 4: 'run' occurs twice"),
        ("job,submit,run,speed\n", "f0, line 1, column 4: 'speed' is not a column; known are job,"),
        ("job,submitted,run\n", "f0, line 1, column 2: 'submitted' is not a column; known are job, submit,"),
        ("node,cpu\nn,4,5\n", "f0, line 2: 3 columns; the header has 2"),
        ("node,cpu\nn,four\n", "f0, line 2, column 2 (cpu): 'four' is not a quantity"),
        ('node,cpu\n"n,4\n', "f0, line 2: not CSV: "),
        ("node,count\nn,many\n", "f0, line 2, column 2 (count): expected a whole number"),
    ],
)
def test_errors_name_their_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TraceError) as error:
        list(native(tmp_path, text).jobs(Tally()))
    assert said in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "f0"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("a,0,x,1,1,\n", "line 2, column 3 (run): expected a number"),
        ("a,0,1,0,1,\n", "line 2, column 4 (pods): expected 1 or more"),
        ("a,0,1,2,1,3\n", "line 2, column 6 (pods_min): 3; there are 2"),
        ("a,0,1,2,-1,\n", "line 2, column 5 (gpus): '-1' is out of range; expected 0 to"),
        ("a,0,1,2,x,\n", "line 2, column 5 (gpus): 'x' is not a quantity"),
        ("a,0,1,2,1,\n,,,x,1,\n", "line 3, column 4 (pods): expected a whole number"),
        ("a,5,1,2,1,\nb,1,1,1,1,\n", "line 3, column 2 (submit): 1 is out of order"),
        ("a,,,2,1,\n", "line 2: submit is empty, and the line above is of another job"),
        ("a,0,1,2,1,\nb,,,2,1,\n", "line 3: submit is empty, and the line above is of another job"),
        (",0,1,2,1,\n,,,2,1,\n", "line 2, column 1 (job): is missing"),
        ("a,0,1,2,1,\na,,7,2,1,\n", "line 3: run belongs into the job's first line"),
        ("a,0,1,2,1,\na,,,2,1,\n", "line 3, set: 'main' occurs twice"),
        ("a,0,1,2,1,\nb,1,1,1,1,\na,9,1,2,1,\n", "line 4, column 1 (job): there is a job 'a' in namespace"),
    ],
)
def test_tables_of_jobs_are_read_with_as_much_care(tmp_path: Path, rows: str, said: str) -> None:
    table = f"job,submit,run,pods,gpus,pods_min\n{rows}"
    with pytest.raises(TraceError) as error:
        list(native(tmp_path, NODES_CSV, table).jobs(Tally()))
    assert said in str(error.value)


def test_bad_lines_can_be_left_out_and_are_counted(tmp_path: Path) -> None:
    text = (
        NODE
        + 'what?\n{"job": "a", "submit": 0, "run": 1}\n{"job": "b"}\n{"job": "c", "submit": 0, "run": 1}\n'
    )
    tally = Tally()
    trace = native(tmp_path, text, skip_bad=True)
    assert [job.id for job in trace.jobs(tally)] == ["default/a", "default/c"]
    assert (tally.bad, tally.first_bad.endswith("expected one object per line")) == (2, True)
    table = "job,submit,run,set\na,0,1,x\na,,,x\nb,0,z,\nc,0,1,\nd\ne,0,1,\n"
    tally = Tally()
    # a names two sets alike, b has no run time, d is cut off
    assert [job.id for job in native(tmp_path, NODE, table, skip_bad=True).jobs(tally)] == [
        "default/c",
        "default/e",
    ]
    assert (tally.bad, tally.first_bad.endswith("line 3, column 4 (set): 'x' occurs twice")) == (3, True)


def test_a_name_that_comes_again_is_left_out_and_counted_whatever_the_file_and_whether_or_not_it_runs(
    tmp_path: Path,
) -> None:
    one = NODE + '{"job": "a", "submit": 0, "run": 1}\n{"job": "idle", "submit": 0, "run": 0}\n'
    two = "job,submit,run,namespace\na,1,1,\na,1,1,ml\nidle,1,1,\nb,x,1,\nb,1,1,\n"  # what is bad has no name
    tally = Tally()
    found = [job.id for job in native(tmp_path, one, two, skip_bad=True).jobs(tally)]
    assert found == ["default/a", "ml/a", "default/b"]
    assert tally.bad == 3
    assert "f1, line 2, column 1 (job): there is a job 'a' in namespace 'default'" in tally.first_bad
    assert tally.filtered == {"no run time": 1}


def test_lines_before_the_jobs_can_be_skipped_as_well(tmp_path: Path) -> None:
    text = (
        NODE
        + '{"node": "n", "resources": {"cpu": 8}}\n{"node": "m", "resources": {"cpu": -8}}\n'
        + '{"queue": "a", "parent": "b"}\n{"queue": "b", "parent": "a"}\n{"queue": "c"}\n'
        + '{"layers": [{"name": "r", "keys": []}]}\n{"at": 1, "node": "m", "is": "down"}\nwhat?\n'
        + '{"job": "x", "submit": 0, "run": 1, "queue": "a"}\n'
        + NODE
        + '{"job": "y", "submit": 0, "run": 1, "queue": "c"}\n'
    )
    tally = Tally()
    trace = native(tmp_path, text, skip_bad=True)
    assert [job.id for job in trace.jobs(tally)] == ["default/y"]
    assert [node.name for node in trace.nodes] == ["n"]
    assert [rule.queue.name for rule in trace.rules if isinstance(rule, QueueChanged)] == ["c"]
    assert (trace.outages, tally.bad) == ([], 9)
    assert tally.first_bad.endswith("line 2, node: n occurs twice")


@pytest.mark.parametrize(
    ("bad", "left"),
    [("b", "ac"), ("b,1", "ac"), ("b,1,1,1,1,1", "ac"), ("a,,7,1", "c"), ('"a', "c"), ("", "ac")],
)
def test_a_bad_line_takes_the_job_above_along_only_if_it_may_be_part_of_it(
    tmp_path: Path, bad: str, left: str
) -> None:
    tally = Tally()
    table = f"job,submit,run,set\na,0,1,x\n{bad}\nc,2,1,\n"
    found = native(tmp_path, NODE, table, skip_bad=True).jobs(tally)
    assert [job.id for job in found] == [f"default/{name}" for name in left]
    assert len(left) + tally.bad == (2 if not bad else 3)


def sets(name: str, least: int) -> str:
    """A job of so many places at least: one of 2 CPUs, a second of 2, one of 3."""
    pods = '{"name": "x", "min": 0, "resources": {"cpu": 3}}, {"count": 2, "min": 1, "resources": {"cpu": 2}}'
    return f'{{"job": "{name}", "submit": 0, "run": 1, "min": {least}, "pods": [{pods}]}}\n'


def test_jobs_that_have_no_part_in_a_replay_are_counted(tmp_path: Path) -> None:
    jobs = (
        '{"job": "a", "submit": 0, "run": 0}\n'
        '{"job": "b", "submit": 0, "run": 1, "pods": [{"resources": {"cpu": 5}}]}\n'
        '{"job": "c", "submit": 0, "run": 1, "limit": 0}\n'
        '{"job": "d", "submit": 0, "run": 1, "pods": [{"count": 9, "min": 5, "resources": {"cpu": 1}}]}\n'
        '{"job": "e", "submit": 0, "run": 1, "pods": [{"count": 9, "min": 4, "resources": {"cpu": 1}}]}\n'
        + sets("f", 2)
        + sets("g", 3)
    )
    tally = Tally()
    assert [job.id for job in native(tmp_path, NODE + jobs).jobs(tally)] == ["default/e", "default/f"]
    assert tally.filtered == {"no run time": 2, "larger than the machine": 3}


def test_a_journal_is_recognised(tmp_path: Path) -> None:
    assert is_journal(write(tmp_path / "j", '{"at":0.0,"is":"Began","what":{"epoch":1}}\n'))
    assert is_journal(tmp_path / "nosuch")
    assert not is_journal(write(tmp_path / "t", '{"at": 1, "node": "n", "is": "down"}\n'))
    assert not is_journal(write(tmp_path / "c", "job,submit,run\n"))


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
@settings(max_examples=examples(100), deadline=None)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("t") / "f"
    path.write_text(text)
    for skip_bad in (False, True):
        try:
            trace = Native([path], [NodeChanged(NodeName("n"), (("cpu", 1000),))], skip_bad)
            list(trace.jobs(Tally()))
        except TraceError as error:
            assert str(path) in str(error)  # noqa: PT017  # what is not refused is fine as well
