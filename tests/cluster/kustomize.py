"""`make kustomize`: writes the chart's objects, as it renders them by default, to the kustomize base."""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster.building import Missing
from tests.cluster.chart import CHART, rendered

BASE: Final = CHART.parents[1] / "kustomize"
#: Labels and annotations that only Helm reads.
_HELMS: Final = ("helm.sh/", "app.kubernetes.io/managed-by")


def objects(home: Path) -> list[dict[str, Any]]:  # Any: JSON
    """The objects of the base, in the chart's order."""
    found = [each for each in yaml.safe_load_all(rendered(home)) if each]
    for each in found:
        for part in ("labels", "annotations"):
            kept = {k: v for k, v in each["metadata"].pop(part, {}).items() if not k.startswith(_HELMS)}
            if kept:
                each["metadata"][part] = kept
    return found


if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory() as home:
            made = yaml.safe_dump_all(objects(Path(home)), sort_keys=False, width=110)
    except Missing as missing:
        sys.exit(f"make kustomize: {missing}")
    (BASE / "muster.yaml").write_text(f"# Made by `make kustomize` of charts/muster.\n{made}")
