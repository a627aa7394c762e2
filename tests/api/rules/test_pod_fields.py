"""What an API server refuses in the fields that a node agent reads: volumes, variables, ports, probes."""

from typing import Any, Final

import pytest

from muster.api import kinds, rules
from muster.api.base import Object

PROBE: Final = {"exec": {"command": ["true"]}}


def errors(obj: Object) -> list[str]:
    """What is said of a pod with these fields of its spec."""
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "m"}], **obj}}
    found = rules.type_(kinds.POD, pod) or rules.validate(kinds.POD, rules.default(kinds.POD, pod), None)
    return [str(error) for error in found]


def volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def container(**fields: Any) -> Object:
    volumes = [{"name": "v", "emptyDir": {}}]
    return {"volumes": volumes, "containers": [{"name": "m", **fields}]}


def projected(*sources: Object, **more: Any) -> Object:
    return volume(projected={"sources": list(sources), **more})


def variable(**source: Any) -> Object:
    return container(env=[{"name": "A", "valueFrom": source}])


def file(**item: Any) -> Object:
    return volume(downwardAPI={"items": [{"path": "f", **item}]})


def mounted(*mounts: Object) -> Object:
    return container(volumeMounts=[{"name": "v", "mountPath": "/v", **mount} for mount in mounts])


def probed(**fields: Any) -> Object:
    return container(livenessProbe={**PROBE, **fields})


def hooked(**handler: Any) -> Object:
    return container(lifecycle={"preStop": handler})


def port(port: Any) -> Object:
    return container(livenessProbe={"tcpSocket": {"port": port}})


MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
CPU: Final = {"resource": "limits.cpu"}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"activeDeadlineSeconds": 10**15}, f"spec.activeDeadlineSeconds: Invalid value: {10**15}: must be"),
        ({"terminationGracePeriodSeconds": 2**40}, "spec.terminationGracePeriodSeconds: Invalid value"),
        (volume(emptyDir={}, configMap={"name": "c"}), "volumes[0]: Forbidden: may not specify more than 1"),
        (volume(emptyDir={"sizeLimit": "-1"}), "emptyDir.sizeLimit: Forbidden: -1"),
        ({"hostAliases": [{"ip": "10.1.2"}]}, "hostAliases[0].ip: Invalid value"),
        (
            {"hostAliases": [{"ip": "::1", "hostnames": ["a b"]}]},
            "hostAliases[0].hostnames[0]: Invalid value",
        ),
        (volume(hostPath={"path": ""}), "hostPath.path: Required value"),
        (volume(hostPath={"path": "/a/../b"}), "hostPath.path: Invalid value"),
        (volume(hostPath={"path": "/a\0"}), "hostPath.path: Invalid value"),
        (volume(hostPath={"path": "/a", "type": "Dir"}), 'hostPath.type: Unsupported value: "Dir"'),
        (
            volume(configMap={"name": "c", "defaultMode": 0o7777777}),
            f"configMap.defaultMode: Invalid value: {0o7777777}: {MODE}",
        ),
        (volume(secret={"secretName": "s", "defaultMode": -1}), "secret.defaultMode: Invalid value: -1"),
        (volume(downwardAPI={"defaultMode": 0o1000}), "downwardAPI.defaultMode: Invalid value"),
        (projected(defaultMode=0o1000), "projected.defaultMode: Invalid value"),
        (volume(configMap={}), "configMap.name: Required value"),
        (volume(secret={}), "secret.secretName: Required value"),
        (
            volume(configMap={"name": "c", "items": [{"key": "", "path": "p"}]}),
            "items[0].key: Required value",
        ),
        (
            volume(configMap={"name": "c", "items": [{"key": "k", "path": ""}]}),
            "items[0].path: Required value",
        ),
        (volume(configMap={"name": "c", "items": [{"key": "k", "path": "/p"}]}), "must be a relative path"),
        (volume(configMap={"name": "c", "items": [{"key": "k", "path": "a/../p"}]}), "must not contain '..'"),
        (
            volume(configMap={"name": "c", "items": [{"key": "k", "path": "p", "mode": 512}]}),
            "items[0].mode: Invalid value: 512",
        ),
        (projected({}), "projected.sources[0]: Required value"),
        (projected({"configMap": {"name": "c"}, "secret": {"name": "s"}}), "sources[0]: Forbidden"),
        (projected({"secret": {}}), "sources[0].secret.name: Required value"),
        (projected({"downwardAPI": {"items": [{"path": "f"}]}}), "items[0]: Invalid value: must specify one"),
        (file(), "items[0]: Invalid value: must specify one of: fieldRef, resourceFieldRef"),
        (file(fieldRef={"fieldPath": "metadata.uid"}, resourceFieldRef=CPU), "may not have more than one"),
        (
            file(fieldRef={"fieldPath": "status.podIP"}),
            'fieldRef.fieldPath: Unsupported value: "status.podIP"',
        ),
        (file(resourceFieldRef=CPU), "resourceFieldRef.containerName: Required value"),
        (variable(), "env[0].valueFrom: Invalid value: must specify one of"),
        (
            variable(fieldRef={"fieldPath": "metadata.uid"}, resourceFieldRef=CPU),
            "env[0].valueFrom: Invalid value: may not have more than one field",
        ),
        (variable(fieldRef={"fieldPath": "spec.x"}), "fieldRef.fieldPath: Unsupported value"),
        (variable(fieldRef={"fieldPath": "metadata.labels"}), "fieldRef.fieldPath: Unsupported value"),
        (variable(resourceFieldRef={"resource": "cpu"}), 'resource: Unsupported value: "cpu"'),
        (variable(resourceFieldRef={"resource": "limits.a.b/gpu"}), "resourceFieldRef.resource: Unsupported"),
        (
            variable(resourceFieldRef={**CPU, "divisor": "-1"}),
            "divisor: Invalid value: -1: only divisor's values 1m, 1",
        ),
        (variable(configMapKeyRef={"name": "c", "key": ""}), "configMapKeyRef.key: Required value"),
        (container(env=[{"name": "A=B"}]), "env[0].name: Invalid value"),
        (container(env=[{"name": "A\0"}]), "env[0].name: Invalid value"),
        (container(env=[{"name": "A", "value": "\0"}]), "env[0].value: Invalid value"),
        (container(envFrom=[{}]), "envFrom[0]: Invalid value: must specify one of: configMapRef, secretRef"),
        (container(envFrom=[{"secretRef": {}}]), "envFrom[0].secretRef.name: Required value"),
        (container(envFrom=[{"prefix": "a=", "secretRef": {"name": "s"}}]), "envFrom[0].prefix"),
        (container(command=["a", "b\0"]), "command[1]: Invalid value"),
        (container(args=["\0"]), "args[0]: Invalid value"),
        (container(workingDir="/\0"), "workingDir: Invalid value"),
        (container(ports=[{"containerPort": 0}]), "ports[0].containerPort: Invalid value: 0"),
        (
            container(ports=[{"containerPort": 80, "hostPort": 65536}]),
            "ports[0].hostPort: Invalid value: 65536",
        ),
        (mounted({"mountPath": ""}), "volumeMounts[0].mountPath: Required value"),
        (mounted({}, {}), 'volumeMounts[1].mountPath: Invalid value: "/v": must be unique'),
        (mounted({"subPath": "../x"}), "volumeMounts[0].subPath: Invalid value"),
        (mounted({"subPath": "/x"}), "volumeMounts[0].subPath: Invalid value"),
        (mounted({"subPath": "x", "subPathExpr": "y"}), "subPathExpr and subPath are mutually exclusive"),
        (probed(periodSeconds=-1), "livenessProbe.periodSeconds: Invalid value: -1: must be greater than or"),
        (probed(timeoutSeconds=2**31), "livenessProbe.timeoutSeconds: Invalid value"),
        (probed(initialDelaySeconds=-5), "livenessProbe.initialDelaySeconds: Invalid value"),
        (probed(failureThreshold=-1), "livenessProbe.failureThreshold: Invalid value"),
        (probed(successThreshold=2), "livenessProbe.successThreshold: Invalid value: 2: must be 1"),
        (probed(tcpSocket={"port": 1}), "livenessProbe.tcpSocket: Forbidden: may not specify more than 1"),
        (container(livenessProbe={}), "livenessProbe: Required value: must specify a handler type"),
        (container(livenessProbe={"exec": {}}), "livenessProbe.exec.command: Required value"),
        (container(livenessProbe={"exec": {"command": ["\0"]}}), "exec.command[0]: Invalid value"),
        (container(livenessProbe={"httpGet": {"port": 80, "path": "/\r\nX: y"}}), "httpGet.path: Invalid"),
        (container(livenessProbe={"httpGet": {"port": 80, "scheme": "FTP"}}), "httpGet.scheme: Unsupported"),
        (hooked(), "lifecycle.preStop: Required value: must specify a handler type"),
        (hooked(exec={"command": []}), "preStop.exec.command: Required value"),
        (hooked(sleep={"seconds": 1}, exec={"command": ["a"]}), "preStop.sleep: Forbidden: may not specify"),
        (hooked(sleep={"seconds": 31}), "preStop.sleep: Invalid value: 31: must be between 0 and the grace"),
        ({**hooked(sleep={"seconds": 6}), "terminationGracePeriodSeconds": 5}, "grace period, 5"),
        (port(0), "tcpSocket.port: Invalid value: 0: must be between 1 and 65535"),
        (port(65536), "tcpSocket.port: Invalid value: 65536"),
        (port("a port"), "tcpSocket.port: Invalid value"),
        (port("x" * 16), "tcpSocket.port: Invalid value"),
    ],
)
def test_an_invalid_field_of_a_pod_is_refused(spec: Object, error: str) -> None:
    found = errors(spec)
    assert any(error in each for each in found), found
    assert not any("\0" in each for each in found)


@pytest.mark.parametrize(
    "spec",
    [
        {"activeDeadlineSeconds": 2**31 - 1},
        {"volumes": [{"name": "v"}]},
        {"hostAliases": [{"ip": "10.1.2.3", "hostnames": ["nas.internal"]}, {"ip": "fd00::1"}]},
        volume(downwardAPI={}),
        volume(configMap={"name": "c", "defaultMode": 0o777, "items": [{"key": "k", "path": "..a/b"}]}),
        projected({"serviceAccountToken": {"path": "t"}}),
        file(resourceFieldRef={**CPU, "containerName": "m", "divisor": "1m"}),
        variable(resourceFieldRef={"resource": "requests.hugepages-2Mi", "divisor": "1Mi"}),
        variable(resourceFieldRef={"resource": "limits.memory", "divisor": 0}),
        variable(fieldRef={"fieldPath": "metadata.annotations['a.b/c']"}),
        mounted({"subPathExpr": "$(A)/x"}),
        probed(periodSeconds=0, timeoutSeconds=0, failureThreshold=0, successThreshold=1),
        container(readinessProbe={"httpGet": {"port": "web"}, "successThreshold": 3}),
        port("http-2"),
        hooked(sleep={"seconds": 30}),
        hooked(httpGet={"port": "web"}),
    ],
)
def test_a_valid_field_of_a_pod_is_accepted(spec: Object) -> None:
    assert errors(spec) == []


def test_a_volume_without_a_source_is_an_empty_directory() -> None:
    pod: Any = {"spec": {"containers": [{"name": "m"}], "volumes": [{"name": "v"}]}}
    assert rules.default(kinds.POD, pod)["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
