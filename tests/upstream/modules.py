"""Controllers of other projects that run beside muster in these tests, unmodified, at pinned versions.

Each is built of its published Go module, as control planes are (`tests/cluster/building.py`), and kept with
those of its module's files that install it: definitions of its kinds, and its webhooks. It is built in the
module's own directory, with the versions and checksums of its go.mod and go.sum. A module whose go.mod has
replacements that are not published has a directory below `recipes/`, whose go.mod replaces them.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster import building

RECIPES: Final = Path(__file__).parent / "recipes"
#: One package at a time: a build leaves the machine to others.
_BUILD: Final = ("-p", "1", "-mod=readonly", "-trimpath", "-ldflags", "-s -w")


@dataclass(frozen=True)
class Upstream:
    """A controller, the package that it is built of, and files and directories of modules that it needs."""

    name: str
    #: `MODULE@VERSION`
    module: str
    #: the package's path below the module
    package: str = ""
    #: by module, paths of YAML in it
    files: tuple[tuple[str, str], ...] = ()
    #: whose recipe it shares; "" = its own, if there is one
    recipe: str = ""

    @property
    def source(self) -> str:
        """What it is built from: the same text, the same program."""
        recipe = self._recipe / "go.mod"
        return "\n".join(
            (
                f"{self.module} {self.package}",
                *map(" ".join, self.files),
                *([recipe.read_text()] if recipe.exists() else []),
            )
        )

    @property
    def kept(self) -> Path | None:
        """The program, if it has been built."""
        return building.kept(self.name, self.source)

    def built(self) -> Path:
        """The program, built unless it is kept. Raises Missing."""
        return building.built(self.name, self.source, self._build)

    def manifests(self, path: str) -> Iterator[Path]:
        """The YAML files at one of its paths, as they were when it was built."""
        at = self._files / path
        return iter(sorted(at.glob("*.yaml")) if at.is_dir() else [at])

    @property
    def _recipe(self) -> Path:
        return RECIPES / (self.recipe or self.name)

    @property
    def _files(self) -> Path:
        return building.cache() / f"{self.name}.files"

    def _build(self, binary: Path) -> None:
        shutil.rmtree(self._files, ignore_errors=True)
        for module, path in self.files:
            found = self._files / path
            found.parent.mkdir(parents=True, exist_ok=True)
            at = _directory(module) / path
            if at.is_dir():
                shutil.copytree(at, found, copy_function=shutil.copyfile)
            else:
                shutil.copyfile(at, found)
        if (recipe := self._recipe).is_dir():
            package = f"{self.module.partition('@')[0]}/{self.package}"
            building.go(recipe, "build", *_BUILD, "-o", str(binary), package)
        else:
            building.go(_directory(self.module), "build", *_BUILD, "-o", str(binary), f"./{self.package}")


@dataclass(frozen=True)
class Program:
    """A program below `recipes/`, of these tests' own, that asks a published Go module."""

    name: str
    #: `MODULE@VERSION`
    module: str

    @property
    def source(self) -> str:
        """What it is built from."""
        return "".join((RECIPES / self.name / file).read_text() for file in ("go.mod", "main.go"))

    @property
    def kept(self) -> Path | None:
        """The program, if it has been built."""
        return building.kept(self.name, self.source)

    def built(self) -> Path:
        """The program, built unless it is kept. Raises Missing."""
        return building.built(self.name, self.source, self._build)

    def _build(self, binary: Path) -> None:
        building.go(RECIPES / self.name, "build", *_BUILD, "-o", str(binary), ".")


def _directory(module: str) -> Path:
    """Where the files of `MODULE@VERSION` are, fetched if need be. Raises Missing."""
    return Path(json.loads(building.go(RECIPES, "mod", "download", "-json", module))["Dir"])


#: scheduler-plugins' definition of PodGroups, in its module
POD_GROUPS: Final = "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"
VOLCANO: Final = Upstream(
    "vc-controller-manager",
    "volcano.sh/volcano@v1.14.1",
    "cmd/controller-manager",
    (
        ("volcano.sh/volcano@v1.14.1", "config/crd/volcano/bases"),
        ("volcano.sh/volcano@v1.14.1", "config/crd/jobflow/bases"),
    ),
)
#: Only to record what it writes (`statuses/record.py`); no test runs it.
VC_SCHEDULER: Final = Upstream(
    "vc-scheduler", "volcano.sh/volcano@v1.14.1", "cmd/scheduler", recipe="vc-controller-manager"
)
#: As VC_SCHEDULER. Its configuration is that of its manifests.
KOORD_SCHEDULER: Final = Upstream(
    "koord-scheduler",
    "github.com/koordinator-sh/koordinator@v1.8.0",
    "cmd/koord-scheduler",
    (
        ("github.com/koordinator-sh/koordinator@v1.8.0", "config/crd/bases"),
        ("github.com/koordinator-sh/koordinator@v1.8.0", "config/manager/scheduler-config.yaml"),
    ),
)
JOBSET: Final = Upstream(
    "jobset-controller",
    "sigs.k8s.io/jobset@v0.12.0",
    files=(
        ("sigs.k8s.io/jobset@v0.12.0", "config/components/crd/bases"),
        ("sigs.k8s.io/jobset@v0.12.0", "config/components/webhook/manifests.yaml"),
    ),
)
TRAINING_OPERATOR: Final = Upstream(
    "training-operator",
    "github.com/kubeflow/training-operator@v1.9.3",
    "cmd/training-operator.v1",
    (
        ("github.com/kubeflow/training-operator@v1.9.3", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
        ("github.com/kubeflow/training-operator@v1.9.3", "manifests/base/webhook/manifests.yaml"),
        ("sigs.k8s.io/scheduler-plugins@v0.28.9", POD_GROUPS),
    ),
)
MPI_OPERATOR: Final = Upstream(
    "mpi-operator",
    "github.com/kubeflow/mpi-operator@v0.6.0",
    "cmd/mpi-operator",
    (
        ("github.com/kubeflow/mpi-operator@v0.6.0", "manifests/base/kubeflow.org_mpijobs.yaml"),
        ("sigs.k8s.io/scheduler-plugins@v0.29.8", POD_GROUPS),
    ),
)
TRAINER: Final = Upstream(
    "trainer-controller-manager",
    "github.com/kubeflow/trainer/v2@v2.2.0",
    "cmd/trainer-controller-manager",
    (
        (
            "github.com/kubeflow/trainer/v2@v2.2.0",
            "manifests/base/crds/trainer.kubeflow.org_clustertrainingruntimes.yaml",
        ),
        (
            "github.com/kubeflow/trainer/v2@v2.2.0",
            "manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
        ),
        ("github.com/kubeflow/trainer/v2@v2.2.0", "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml"),
        ("github.com/kubeflow/trainer/v2@v2.2.0", "manifests/base/webhook/manifests.yaml"),
    ),
)
LWS: Final = Upstream(
    "lws-controller",
    "sigs.k8s.io/lws@v0.8.0",
    "cmd",
    (
        ("sigs.k8s.io/lws@v0.8.0", "config/crd/bases"),
        ("sigs.k8s.io/lws@v0.8.0", "config/webhook/manifests.yaml"),
    ),
)
KUBERAY: Final = Upstream(
    "kuberay-operator",
    "github.com/ray-project/kuberay/ray-operator@v1.5.1",
    files=(
        ("github.com/ray-project/kuberay/ray-operator@v1.5.1", "config/crd/bases"),
        ("sigs.k8s.io/scheduler-plugins@v0.29.8", POD_GROUPS),
    ),
)
#: Allocates devices as kube-scheduler does, by Kubernetes' own module.
ALLOCATOR: Final = Program("structured-allocator", "k8s.io/dynamic-resource-allocation@v0.37.1")
ALL: Final = (VOLCANO, JOBSET, TRAINING_OPERATOR, MPI_OPERATOR, TRAINER, LWS, KUBERAY)
#: why some could not be built, by name
UNBUILT: Final[dict[str, str]] = {}
