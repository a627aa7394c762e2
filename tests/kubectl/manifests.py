"""Objects for the cases; each is formatted with its name."""

from typing import Final

#: A pod on a node, so that it runs without a scheduler; it has the label app=NAME.
POD: Final = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  nodeName: node-0
  terminationGracePeriodSeconds: 5
  containers:
  - name: c
    image: none
    command: [sh, -c, "echo first; echo second; exec sleep 1000"]
"""
_JOB: Final = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  backoffLimit: 0
  template:
    metadata: {{annotations: {{muster.dev/pretend: {pretend}}}}}
    spec:
      nodeName: node-0
      restartPolicy: Never
      containers:
      - name: c
        image: none
        command: [sh, -c, "{command}"]
"""
CONFIG_MAP: Final = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, labels: {{app: {name}}}}}
data: {{a: {value}}}
"""
SERVICE: Final = """\
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  clusterIP: None
  selector: {{app: {name}}}
  ports: [{{name: one, port: {port}}}]
"""


def job(name: str, command: str = "true") -> str:
    """A Job of one pod, which ends at once if its command is `true`, on simulated nodes, too."""
    pretend = "run=0s" if command == "true" else "run=1000s"
    return _JOB.format(name=name, command=command, pretend=pretend)
