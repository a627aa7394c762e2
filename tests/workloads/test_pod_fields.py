"""No field of a pod is ignored silently."""

import json
from pathlib import Path

import pytest
import yaml

import muster.api.rules
from muster.api.base import Object
from muster.api.fields import Severity, dotted
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.pod_fields import IGNORED, MEANINGLESS, WORKS, ignored

TYPES = json.loads(Path(muster.api.rules.__file__).with_name("types.json").read_text())
#: Values of all fields that say something, by the letter of their type.
SAYS: Object = {"s": "x", "i": 1, "b": True, "q": "1Mi", "[": [{}], "{": {"a": "b"}}


@pytest.mark.parametrize("type_", IGNORED)
def test_every_field_works_means_nothing_or_is_told(type_: str) -> None:
    told = [WORKS[type_].split(), MEANINGLESS.get(type_, "").split(), list(IGNORED[type_])]
    every = [field for fields in told for field in fields]
    assert len(every) == len(set(every)), "in one table"
    assert set(every) == set(TYPES[type_]), "Kubernetes' own fields"


@pytest.mark.parametrize(
    ("type_", "field"), [(type_, field) for type_, fields in IGNORED.items() for field in fields]
)
def test_every_field_that_is_ignored_is_found_where_it_may_stand(type_: str, field: str) -> None:
    shape = TYPES[type_][field]
    value = SAYS.get(shape[0], {"exec": {"command": ["true"]}})
    said = {field: value}
    container: Object = {"name": "main"}
    places: dict[str, Object] = {
        "PodSpec": said,
        "Container": {"containers": [said]},
        "Lifecycle": {"initContainers": [{"lifecycle": said}]},
        "Probe": {"containers": [container, {"livenessProbe": said}]},
        "VolumeMount": {"containers": [{"volumeMounts": [said]}]},
        "EmptyDirVolumeSource": {"volumes": [{"name": "v", "emptyDir": said}]},
    }
    ((path, instead),) = ignored(places[type_])
    assert path[-1] == field
    assert instead


@pytest.mark.parametrize(
    "spec", [{}, {"containers": None}, {"containers": [{"lifecycle": None}]}, {"volumes": ["x"]}]
)
def test_what_says_nothing_is_not_found(spec: Object) -> None:
    assert list(ignored(spec)) == []


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      restartPolicy: Never
      dnsConfig: {searches: [example.internal]}
      volumes: [{name: shm, emptyDir: {medium: Memory, mode: 504}}]
      containers:
      - name: main
        image: x
        command: [sh]
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
        lifecycle: {stopSignal: SIGUSR1}
"""


def test_the_notes_of_a_file_name_line_and_field_for_the_embedded_cluster_only() -> None:
    notes = [note for note in load("f.yaml", text=JOB).notes if note.severity is Severity.WARNING]
    assert [
        (note.line, dotted(note.path).removeprefix("spec.template.spec."), note.message) for note in notes
    ] == [
        (line, field, f"is ignored on the embedded cluster: {instead}")
        for line, field, instead in (
            (9, "dnsConfig", IGNORED["PodSpec"]["dnsConfig"]),
            (16, "containers[0].lifecycle.stopSignal", IGNORED["Lifecycle"]["stopSignal"]),
            (10, "volumes[0].emptyDir.mode", IGNORED["EmptyDirVolumeSource"]["mode"]),
        )
    ]
    assert not load("f.yaml", Options(local=False), text=JOB).notes
    assert yaml.safe_load(JOB)["spec"], "the file itself is fine"
