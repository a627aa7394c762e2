"""Each key under `muster.dev` is one row: nothing else says where it is read, or what its value may be."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import names
from muster.api import elastic_quota, groups, volcano_v1beta1
from muster.api import koordinator_v1alpha1 as koordinator
from muster.api.base import ObjectMeta
from muster.api.marks import CHECKED, CHECKPOINT_GRACE, GPU_SHARE, MARKS, PREEMPTIBLE, RESTART_COST, Mark
from muster.controllers.gpu_health import TAINT
from muster.core.world.devices import WHOLE

#: Fields and kinds of the second table: `spec.minMember`, `priorityClassName`, `PodDisruptionBudgets`.
FIELD = re.compile(r"(spec\.)?[A-Za-z]+$")
ROOT = Path(__file__).parents[2]
NAMES = {name: value for name, value in vars(names).items() if isinstance(value, str)}
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["true", "keep", "1h", "30m", "0", "1000", "1001", "٣", "2026-01-31T12:00:00Z", "none"]),
    st.from_regex(r"[-a-z0-9.]{0,8}", fullmatch=True),
)


def test_every_key_is_a_row() -> None:
    keys = {value for value in NAMES.values() if re.fullmatch(r"muster\.dev/[a-z-]+", value)}
    assert keys == {*MARKS}
    assert len({row.key for row in CHECKED}) == len(CHECKED)


def test_the_documented_table_is_the_rows() -> None:
    page = (ROOT / "docs/reference/names.md").read_text().replace(r"\|", "¦")
    lines = [line for line in page.splitlines() if line.startswith(f"| `{names.DOMAIN}/")]
    told = {key for line in lines for key in re.findall(rf"`({names.DOMAIN}/[a-z-]+)", line.split("|")[1])}
    assert told - {"muster.dev/gpu-unhealthy"} == {*MARKS}
    for key, row in MARKS.items():
        form = f"`{key}: {row.form}`" if row.form else f"`{key}`"
        line = next(each for each in lines if re.search(rf"`{key}\b(?!-)", each.split("|")[1]))
        assert form.replace("|", "¦") in line.split("|")[1]
        assert line.split("|")[2].strip().startswith(", ".join(row.on))


def table(heading: str) -> list[str]:
    """The first columns of the table below a heading of the page on rights."""
    page = (ROOT / "docs/concepts/marks-and-rights.md").read_text()
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.split("|")[1] for line in section.splitlines() if line.startswith("| ") and "`" in line]


def test_each_key_has_its_rights() -> None:
    told = [key for first in table("Marks") for key in re.findall(rf"`({names.DOMAIN}/[a-z-]+)", first)]
    assert sorted(told) == sorted({*MARKS, TAINT})


def test_each_key_of_other_projects_has_its_rights() -> None:
    """Those by which pods name and describe their groups, and Koordinator's own."""
    told = [key for first in table("Marks of other projects") for key in re.findall(r"`([^`]*)`", first)]
    read = {key for row in groups.NAMED for key in (row.label, row.task, *row.annotations) if key}
    read |= {key for row in groups.NAMED for key in (*row.by_description, *row.minimum, *row.description)}
    read |= {koordinator.TOPOLOGY_SPEC, koordinator.TOPOLOGY_INDEX}
    read |= {key for key, _ in koordinator.NOT_PREEMPTIBLE}
    read |= {elastic_quota.NAME, volcano_v1beta1.QUEUE_NAME}
    assert sorted(key for key in told if not FIELD.match(key)) == sorted(read)
    assert all(not row.in_spec or "spec.schedulingGroup" in told for row in groups.NAMED)


@pytest.mark.parametrize("row", CHECKED, ids=lambda row: row.key)
@given(text=TEXTS)
def test_a_value_is_read_or_there_is_advice(row: Mark[object], text: str) -> None:
    meta = ObjectMeta(name="a", annotations={row.key: text})
    advice = row.advice(text)
    assert row.text(meta) == text
    if advice:
        assert row.get(meta) is None
        with pytest.raises(ValueError, match=re.escape(row.key)) as caught:
            row.read(meta)
        assert advice in str(caught.value)
    else:
        assert row.read(meta) == row.get(meta) is not None


def test_a_label_wins_and_bounds_hold() -> None:
    both = ObjectMeta(name="a", labels={PREEMPTIBLE.key: "true"}, annotations={PREEMPTIBLE.key: "false"})
    assert PREEMPTIBLE.read(both) is True
    assert PREEMPTIBLE.read(ObjectMeta(name="a")) is None
    assert CHECKPOINT_GRACE.parse("9h") == 600
    assert RESTART_COST.parse("9h") == 3600
    assert GPU_SHARE.parse(str(WHOLE)) == WHOLE
    assert GPU_SHARE.advice(str(WHOLE + 1))


def test_no_other_module_reads_a_checked_mark() -> None:
    """A call of `mark` with the name of such a key would be a second home of what the value may be."""
    checked = {name for name, value in NAMES.items() if value in {row.key for row in CHECKED}}
    found = []
    for path in sorted((ROOT / "src/muster").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "mark" and len(node.args) > 1:
                key = node.args[1]
                if (key.attr if isinstance(key, ast.Attribute) else getattr(key, "id", "")) in checked:
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []
