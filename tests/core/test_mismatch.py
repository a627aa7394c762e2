"""What no node satisfies is named, with what nodes have instead."""

import pytest

from muster.core.explain.reasons import mismatch
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Effect, Shape, Taint, Toleration
from tests.core.words import node, shape


def tainted(*keys: str, value: str = "") -> NodeChanged:
    return node("-".join(keys), taints=tuple(Taint(key, value, Effect.NO_SCHEDULE) for key in keys))


@pytest.mark.parametrize(
    ("of", "nodes", "said"),
    [
        (shape(selector={"zone": "c"}), [node("a"), node("b")], "selector zone=c (no node has zone)"),
        (
            shape(selector={"zone": "c"}),
            [node("a", labels={"zone": "b"}), node("b", labels={"zone": "a"}), node("c")],
            "selector zone=c (here: a, b)",
        ),
        (
            shape(selector={"disk": "ssd", "zone": "z9"}),
            [node(f"n{i}", labels={"disk": "ssd", "zone": f"z{i}"}) for i in range(5)],
            "selector zone=z9 (here: z0, z1, z2, …)",
        ),
        (
            shape(selector={"disk": "ssd", "zone": "a"}),
            [node("a", labels={"zone": "a"}), node("b", labels={"disk": "ssd"})],
            "selector disk=ssd, zone=a (no node has all of these)",
        ),
        (shape(), [tainted("spot"), tainted("old", value="yes")], "taint old=yes, spot"),
        (
            shape(selector={"zone": "a"}),
            [
                node("a", labels={"zone": "a"}, taints=(Taint("k", "", Effect.NO_EXECUTE),)),
                node("b", cordoned=True),
            ],
            "selector zone=a, taint k",
        ),
        (
            Shape((), tolerations=(Toleration("spot", None, None),)),
            [tainted("spot", "full")],
            "taint full",
        ),
        (Shape((), affinity=()), [node("a")], "affinity"),
    ],
)
def test_mismatch(of: Shape, nodes: list[NodeChanged], said: str) -> None:
    assert mismatch(of, nodes) == said
