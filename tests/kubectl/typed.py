"""Commands whose clients have types, and send protobuf: create KIND, auth, drain; and those of nodes."""

from tests.kubectl.cases import Case, Run
from tests.kubectl.manifests import POD

PDB = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: guarded}
spec: {minAvailable: 1, selector: {matchLabels: {app: guarded}}}
"""

CASES = (
    Case(
        "create without a file",
        (
            Run("create configmap typed --from-literal=a=b --from-literal=c=", ("configmap/typed created",)),
            Run("get cm typed -o jsonpath={.data}", ('{"a":"b","c":""}',)),
            Run("create secret generic typed --from-literal=a=hello", ("secret/typed created",)),
            Run("get secret typed -o jsonpath={.data.a}", ("aGVsbG8=",)),
            Run("create job typed --image=none -- true", ("job.batch/typed created",)),
            Run("get job typed -o jsonpath={.spec.template.spec.containers[0]}", ('"command":."true".',)),
            Run("create quota typed --hard=pods=3,cpu=1500m", ("resourcequota/typed created",)),
            Run("get quota typed -o jsonpath={.spec.hard}", ('"cpu":"1500m"', '"pods":"3"')),
            Run("create sa typed", ("serviceaccount/typed created",)),
            Run("create priorityclass typed --value=7 --description=d", ("priorityclass.*/typed created",)),
            Run("get priorityclass typed", ("^NAME VALUE GLOBAL-DEFAULT AGE", "^typed 7 false")),
            Run("create pdb typed --selector=app=typed --min-available=50%", ("created",)),
            Run("get pdb typed", ("^typed 50% N/A 0",)),
            Run("create service clusterip typed --clusterip=None --tcp=80:8080", ("service/typed created",)),
            Run("get svc typed -o jsonpath={.spec.ports[0].targetPort}", ("^8080$",)),
            Run("delete cm,secret,job,quota,sa,pdb,svc typed", ("deleted",)),
            Run("delete priorityclass typed", ("deleted",)),
        ),
    ),
    Case(
        "a namespace",
        (
            Run("create namespace typed", ("namespace/typed created",)),
            Run("create cm inner --from-literal=a=b -n typed", ("created",)),
            Run("get cm -A --field-selector metadata.namespace=typed", ("^typed inner 1",)),
            Run("delete namespace typed", ("deleted",)),
            Run("get ns typed", ("not found",), code=1, again=True),
        ),
    ),
    Case(
        "auth",
        (
            Run("auth can-i create pods", ("^yes$",)),
            Run("auth can-i --list", (r"^\*\.\* ",)),
            Run("auth whoami", ("^Username ", "system:masters")),
        ),
    ),
    Case(
        "cordon and taint",
        (
            Run("cordon node-1", ("node/node-1 cordoned",)),
            Run("get node node-1", ("Ready,SchedulingDisabled",)),
            Run("uncordon node-1", ("node/node-1 uncordoned",)),
            Run("taint node node-1 a=b:NoSchedule", ("node/node-1 tainted",)),
            Run("describe node node-1", ("^Taints: a=b:NoSchedule",)),
            Run("taint node node-1 a=c:NoSchedule", ("already has a taint",), code=1),
            Run("taint node node-1 a=c:NoSchedule --overwrite", ("node/node-1 modified",)),
            Run("taint node node-1 a-", ("node/node-1 untainted",)),
            Run("label node node-1 kind=small", ("labeled",)),
            Run("get nodes -l kind=small -o name", ("^node/node-1$",)),
            Run("label node node-1 kind-", ("unlabeled",)),
        ),
    ),
    Case(
        "drain",
        (
            Run("create -f -", stdin=POD.format(name="drained").replace("node-0", "node-1")),
            Run("create -f -", stdin=POD.format(name="guarded").replace("node-0", "node-1")),
            Run("create -f -", stdin=PDB),
            Run("wait --for=condition=Ready pod/guarded pod/drained"),
            Run("drain node-1", ("cannot delete.*declare no controller",), code=1),
            Run(
                "drain node-1 --force",
                ("evicting pod default/drained", "violate the pod's disruption budget"),
                meanwhile=(Run("get pod drained", ("not found",), code=1, again=True),),
            ),
            Run("delete pdb guarded"),
            Run("drain node-1 --force --grace-period=1", ("node/node-1 drained",)),
            Run("get pod guarded", ("not found",), code=1),
            Run("uncordon node-1", ("uncordoned",)),
        ),
    ),
)
