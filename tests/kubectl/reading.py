"""get in all forms, describe, events, wait, api-resources."""

from tests.kubectl.cases import Case, Run
from tests.kubectl.manifests import POD, job

AGE = r"\d+[smh]\d*s?"
#: what kubectl logs once it watches
WATCHES = ("watch=true",)

CASES = (
    Case(
        "tables of pods",
        (
            Run("create -f -", ("pod/table created",), stdin=POD.format(name="table")),
            Run("wait --for=condition=Ready pod/table", ("condition met",)),
            Run(
                "get pods table",
                (r"^NAME READY STATUS RESTARTS AGE$", rf"^table 1/1 Running 0 {AGE}$"),
            ),
            Run(
                "get po -l app=table -o wide",
                (r"NODE NOMINATED NODE READINESS GATES", r"table.* node-0 <none>"),
            ),
            Run("get pods -A --field-selector metadata.name=table", (r"^default table 1/1",)),
            Run("get pods -l app=table --show-labels", (r"LABELS$", r"app=table")),
            Run("get pods -l app=table -L app", (r"APP$", r" table$")),
            Run("get pods -l app=table --sort-by=.metadata.name", (r"^table",)),
            Run("get pods -l app=table --no-headers", (r"^table",), never=("NAME",)),
            Run("get pods -l app=none", ("No resources found in default namespace",)),
            Run("get pods -l app=table -o name", ("^pod/table$",)),
            Run("get pod table -o yaml", ("^kind: Pod$", "^  name: table$")),
            Run("get pods -l app=table -o json", ('"kind": "List"', '"name": "table"')),
            Run("get pod table -o jsonpath={.spec.nodeName}", ("^node-0$",)),
            Run("get pod table -o jsonpath-as-json={.spec.nodeName}", ('^ "node-0"$',)),
            Run("get pod table -o go-template={{.spec.nodeName}}", ("^node-0$",)),
            Run(
                "get pods -l app=table -o custom-columns=N:.metadata.name,P:.status.phase",
                ("^table Running",),
            ),
            Run("get pods --field-selector status.phase=Running,metadata.name=table", ("^table",)),
            Run("describe pod table", ("^Name: table", "^Node: node-0/", "Command: sh -c", "^Events:")),
            Run("wait --for=jsonpath={.status.phase}=Running pod/table", ("condition met",)),
            Run("get pods nothing", ('pods "nothing" not found',), code=1),
            Run("delete pod table --now", ("deleted",)),
        ),
    ),
    Case(
        "tables of a watch",
        (
            Run(
                "get pods -w -l app=watched -v=6",
                WATCHES,
                meanwhile=(
                    Run("create -f -", stdin=POD.format(name="watched")),
                    Run("wait --for=condition=Ready pod/watched"),
                    Run("delete pod watched --grace-period=1"),
                ),
                then=(
                    r"^NAME READY STATUS",
                    r"^watched 0/1 Pending",
                    r"^watched 1/1 Running",
                    "Terminating",
                ),
            ),
            Run(
                "get configmaps --watch-only -o name -v=6",
                WATCHES,
                meanwhile=(
                    Run("create configmap seen --from-literal=a=b"),
                    Run("delete configmap seen"),
                ),
                then=("^configmap/seen$",),
            ),
        ),
    ),
    Case(
        "tables of jobs and events",
        (
            Run("create -f -", ("job.batch/listed created",), stdin=job("listed")),
            Run("wait --for=condition=Complete job/listed", ("condition met",)),
            Run(
                "get jobs listed",
                (r"^NAME STATUS COMPLETIONS DURATION AGE$", r"^listed Complete 1/1 \d+s"),
            ),
            Run(
                "get job listed -o wide",
                (r"CONTAINERS IMAGES SELECTOR$", r" c none batch.kubernetes.io/"),
            ),
            Run(
                "get events --field-selector involvedObject.name=listed",
                (r"^LAST SEEN TYPE", "job/listed"),
                again=True,
            ),
            Run("events --for job/listed", (r"^LAST SEEN TYPE", "Job/listed"), again=True),
            Run("describe job listed", (r"^Name: listed", "1 Succeeded", r"Normal Completed"), again=True),
            Run("get all -l app=listed", ("^job.batch/listed",)),
            Run("delete job listed", ('"listed" deleted',)),
        ),
    ),
    Case(
        "nodes",
        (
            Run("get nodes", (r"^NAME STATUS ROLES AGE VERSION$", rf"^node-0 Ready <none> {AGE}")),
            Run("get no -o wide", (r"INTERNAL-IP EXTERNAL-IP", r"127.0.0.1")),
            Run(
                "describe node node-0",
                (r"^Name: node-0", "Allocatable:", r"^Non-terminated Pods:", "Events:"),
            ),
        ),
    ),
    Case(
        "tables of other kinds",
        (
            Run("get ns default", (r"^NAME STATUS AGE$", "^default Active")),
            Run("get queues,gangs,gangplans -A", ("No resources found",)),
            Run("get queues,gangs,gangplans -A -o wide", ("No resources found",)),
            Run("get pc,pdb,pv,pvc,sc,quota,limits,leases,svc,sa,cm -A"),
        ),
    ),
    Case(
        "what there is",
        (
            Run("api-resources", (r"^pods po v1 true Pod$", r"^jobs batch/v1 true Job$")),
            Run("api-versions", ("^batch/v1$", "^v1$")),
            Run("version", ("Server Version: v1",)),
            Run("cluster-info", ("is running at",)),
        ),
    ),
)
