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
JOB: Final = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  backoffLimit: 0
  template:
    metadata: {{annotations: {{muster.dev/pretend: run=0s}}}}
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
