"""The Helm chart says the same as the code. (tests/cluster/test_chart.py installs it.)"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from muster.api.kinds import ADMITTING
from muster.api.reviews import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from muster.app.wiring.controllers import CONTROLLERS
from muster.app.wiring.settings import Common, ControllersSettings, SchedulerSettings, load
from muster.dashboard.cluster import KINDS
from muster.version import VERSION

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts/muster"
#: What the chart sets itself.
OWN = {"apiVersion", "kind", "lease", "listen"}
#: Statuses of objects that are not muster's, which other programs act on.
OF_OTHERS = {"pods/status", "resourceclaims/status"}
DAEMONS = [("scheduler", SchedulerSettings), ("controllers", ControllersSettings)]


def test_the_chart_has_the_version_of_what_it_installs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {chart["version"], chart["appVersion"], project["version"]} == {VERSION}


@pytest.mark.parametrize(("daemon", "type_"), DAEMONS)
def test_its_schema_has_the_settings_that_there_are(daemon: str, type_: type[Common]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"][daemon]["properties"][
        "config"
    ]

    def compare(struct: Any, part: Any, leave: set[str]) -> None:  # Any: a struct's type, JSON
        fields = {each.encode_name: each.type for each in msgspec.structs.fields(struct)}
        assert set(fields) - leave == set(part["properties"])
        for name, inner in part["properties"].items():
            if inner.get("type") == "object":
                compare(fields[name], inner, set())

    # the controllers have the schedulerNames of the scheduler
    compare(type_, schema, OWN | ({"schedulerNames"} if type_ is ControllersSettings else set()))


@pytest.mark.parametrize(("daemon", "type_"), DAEMONS)
def test_its_settings_are_valid(daemon: str, type_: type[Common], tmp_path: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(values[daemon]["config"]))
    load(type_, str(file), {})
    assert set(values["controllers"]["config"]["only"]) <= set(CONTROLLERS)


def test_grafanas_dashboard_shows_metrics_that_exist() -> None:
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    shown = {re.sub("_(bucket|count|sum)$", "", name) for name in re.findall(r"\bmuster_\w+", asked)}
    known = set(re.findall(r"`(muster_\w+)`", (ROOT / "docs/reference/daemons.md").read_text()))
    assert len(shown) > 10
    assert shown <= known
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_pages_may_read_what_they_are_made_of_and_nothing_else() -> None:
    text = (CHART / "templates/dashboard.yaml").read_text()
    rules = yaml.safe_load(text.partition("\nrules:\n")[2].partition("\n---\n")[0])
    granted = {
        (group, resource): set(rule["verbs"])
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    reviews = {(kind.group, kind.plural): {"create"} for kind in (TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW)}
    names = {(ADMITTING[0].group, ADMITTING[0].plural): {"list"}}
    shown = {(kind.group, kind.plural): {"list", "watch"} for kind in KINDS}
    assert granted == {**shown, **names, **reviews}


def test_whatever_controllers_run_they_may_record_events() -> None:
    """Each of them records Events, so the right stands in no part of the template that depends on `only`."""
    text = (CHART / "templates/roles.yaml").read_text()
    always: list[str] = []
    depth = 0
    for line in text.partition("-controllers\n")[2].partition("\n---\n")[0].splitlines():
        if line.startswith("{{-"):
            depth += {"if": 1, "end": -1}.get(line.split()[1], 0)
        elif not depth:
            always.append(line)
    rules = yaml.safe_load("\n".join(always[always.index("rules:") :]))["rules"]
    assert {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]} in rules


def test_what_muster_may_patch_whole_is_confined_to_fields() -> None:
    """RBAC permits the patch of a kind, not of a field. Muster's own records and statuses need no policy."""
    made = [each for each in yaml.safe_load_all((ROOT / "kustomize/muster.yaml").read_text()) if each]
    named = {(each["kind"], each["metadata"]["name"]): each for each in made}
    confined = {
        (group, what)
        for name in ("patches", "others")
        for rule in named["ValidatingAdmissionPolicy", f"muster-confine-{name}"]["spec"]["matchConstraints"][
            "resourceRules"
        ]
        if "UPDATE" in rule["operations"]
        for group in rule["apiGroups"]
        for what in rule["resources"]
    }
    patched = {
        (group, what)
        for daemon in ("scheduler", "controllers")
        for rule in named["ClusterRole", f"muster-{daemon}"]["rules"]
        if "patch" in rule["verbs"]
        for group in rule["apiGroups"]
        for what in rule["resources"]
        if group != "muster.dev" and (what in OF_OTHERS or not what.endswith(("/status", "/binding")))
    }
    assert ("scheduling.volcano.sh", "podgroups") in patched
    assert patched <= confined
