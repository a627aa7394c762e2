"""logs, exec, cp and gangs: what runs on the embedded cluster only."""

from tests.kubectl.cases import Case, Run
from tests.kubectl.manifests import POD

WHY = "a pod needs a kubelet, and the test's control plane has simulated nodes"

SCRATCH = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  nodeName: node-0
  terminationGracePeriodSeconds: 1
  volumes: [{{name: scratch, emptyDir: {{}}}}]
  containers:
  - name: c
    image: none
    volumeMounts: [{{name: scratch, mountPath: /tmp/{name}}}]
    command: [sh, -c, "{command}"]
"""
#: It prints two lines, and a third once the file `go` is there.
TALKER = SCRATCH.format(
    name="talker",
    command="echo first; echo second; until test -e /tmp/talker/go; do sleep 0.1; done; echo third; sleep 99",
)
#: It fails the first time.
AGAIN = SCRATCH.format(
    name="again",
    command="test -e /tmp/again/been && exec sleep 1000; touch /tmp/again/been; echo before; exit 1",
)

JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: ganged, annotations: {muster.dev/gang: "true"}}
spec:
  replicatedJobs:
  - name: w
    replicas: 2
    template:
      spec:
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 1
            containers: [{name: c, image: none, command: [sleep, "1000"]}]
"""

CASES = (
    Case(
        "logs",
        (
            Run("create -f -", stdin=TALKER),
            Run("wait --for=condition=Ready pod/talker"),
            Run("logs talker", ("^first$", "^second$"), again=True),
            Run("logs talker --tail=1", ("^second$",), never=("first",)),
            Run("logs talker --since=1h --timestamps", (r"^20\d\d-\d\d-\d\dT\S+Z first$",)),
            Run("logs -l app=talker --prefix", (r"^\[pod/talker/c\] first$",)),
            Run("logs talker -c nothing", ("container nothing is not valid",), code=1),
            Run("logs talker --previous", ("previous terminated container .* not found",), code=1),
            Run(
                "logs -f talker --since=1h",
                ("^first$",),
                meanwhile=(Run("exec talker -- touch /tmp/talker/go"),),
                then=("^third$",),
            ),
            Run("delete pod talker --now", ("deleted",)),
        ),
        WHY,
    ),
    Case(
        "logs of the run before",
        (
            Run("create -f -", stdin=AGAIN),
            Run("get pod again", ("1/1 Running 1",), again=True),
            Run("logs again --previous", ("^before$",)),
            Run("delete pod again --now", ("deleted",)),
        ),
        WHY,
    ),
    Case(
        "a gang",
        (
            Run("apply -f -", ("jobset.jobset.x-k8s.io/ganged created",), stdin=JOBSET),
            Run(
                "wait --for=jsonpath={.status.phase}=Standing gang/jobset-ganged",
                ("condition met",),
                again=True,
            ),
            Run(
                "get gangs jobset-ganged",
                ("^NAME PHASE QUEUE MIN BOUND", "Standing default 2 2"),
                again=True,
            ),
            Run("get jobsets", ("^NAME TERMINALSTATE RESTARTS COMPLETED SUSPENDED AGE", "^ganged 0")),
            Run("describe gang jobset-ganged", ("^Kind: Gang$", "Phase: Standing", "^Events:")),
            Run("describe jobset ganged", ("^Kind: JobSet$", "Replicated Jobs:", "^Events:")),
            Run("get queues,gangs,jobsets -o name", ("^gang.muster.dev/", "^jobset.jobset.x-k8s.io/")),
            Run("delete jobset ganged", ("deleted",)),
            Run("wait --for=delete gang/jobset-ganged"),
        ),
        "the test's control plane has no JobSet controller",
    ),
    Case(
        "exec",
        (
            Run("create -f -", stdin=POD.format(name="entered")),
            Run("wait --for=condition=Ready pod/entered"),
            Run("exec entered -- hostname", ("^entered$",)),
            Run(
                "exec entered -- sh -c 'echo out; echo err >&2; exit 7'", ("^out$", "^err$", "code 7"), code=7
            ),
            Run("exec -i entered -- wc -c", ("^10$",), stdin="123456789\n"),
            Run("exec entered -- no-such-command", ("not found",), code=127),
            Run("exec entered -c nothing -- true", ("container nothing is not valid",), code=1),
            Run("exec pod/entered -- sh -c 'seq 200000 | tail -1'", ("^200000$",)),
            Run("attach entered", ("neither attach nor port-forward is supported",), code=1),
            Run("delete pod entered --now", ("deleted",)),
        ),
        WHY,
    ),
    Case(
        "cp",
        (
            Run("create -f -", stdin=POD.format(name="filled")),
            Run("wait --for=condition=Ready pod/filled"),
            Run("create cm file --from-literal=a=b -o yaml --dry-run=client", ("a: b",)),
            Run("cp /etc/hostname filled:copied-by-kubectl"),
            Run("exec filled -- cat copied-by-kubectl", (r"\S",)),
            Run("cp filled:copied-by-kubectl back"),
            Run("exec filled -- rm copied-by-kubectl"),
            Run("delete pod filled --now", ("deleted",)),
        ),
        WHY,
    ),
)
