"""The course of a replay is drawn as it was, whatever starts, shrinks, stops and comes again."""

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from muster.core.words.gang import NodeName, Place
from muster.perfetto import Trace
from muster.sim.tracks import Course
from tests.sim.traces import GPU, job
from tests.test_perfetto import events

JOBS = [job(number, 0.0, 10.0, 2, 2, 1) for number in range(4)]
PLACES = [Place("gpu-2", 0), Place("gpu-2", 1), Place("gpu-1", 0)]
#: a gang gets these places, none of which means that it is stopped
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.dictionaries(st.sampled_from(PLACES), st.sampled_from("abc"))),
    max_size=30,
)


@given(STEPS)
def test_slices_add_up_to_the_counters(steps: list[tuple[int, dict[Place, str]]]) -> None:
    written: list[bytes] = []
    running: dict[int, dict[Place, str]] = {}
    expected: list[tuple[int, Counter[str]]] = []
    with Trace(written.append, 0.0) as trace:
        course = Course(trace, GPU, "GPUs")
        for now, (number, places) in enumerate(steps):
            if places:
                running[number] = places
                named = {place: NodeName(node) for place, node in places.items()}
                course.placed(JOBS[number], named, float(now))
            elif running.pop(number, None) is not None:
                course.left(JOBS[number], float(now), "preempted")
            used: Counter[str] = Counter()
            for held in running.values():
                for place, node in held.items():
                    used[f"node {node}"] += JOBS[0].pod_sets[place.pod_set == "gpu-1"].shape.requests[0][1]
            expected.append((now, used))
        course.waits(JOBS[0], 1, float(len(steps)))
        course.close()
    found = events(b"".join(written))
    names = {each["pid"]: each["args"]["name"] for each in found if each["name"] == "process_name"}
    drawn: defaultdict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for each in found:
        if each["ph"] == "X":
            period = each["ts"], each["ts"] + each["dur"], each["args"]["GPUs used"]
            drawn[names[each["pid"]]].append(period)
    assert all(name.startswith(("node ", "queue ")) for name in drawn)
    for now, used in expected:
        at = now * 10**6
        for process in ("node a", "node b", "node c"):
            assert sum(each[2] for each in drawn[process] if each[0] <= at < each[1]) == used[process]
        assert sum(each[2] for each in drawn["queue default"] if each[0] <= at < each[1]) == used.total()
