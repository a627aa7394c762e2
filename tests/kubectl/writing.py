"""create, apply, replace, edit, patch, label, annotate, delete, diff, scale, validation, explain."""

from tests.kubectl.cases import Case, Run
from tests.kubectl.manifests import CONFIG_MAP, POD, SERVICE, job
from tests.workloads.batch.jobs import TRAINING

EDITOR = (("KUBE_EDITOR", "sed -i s/one/edited/"),)


def _cascade(name: str, then: str) -> tuple[Run, ...]:
    """A Job with a pod, deleted with this cascade; `then` is what a list of its pods prints."""
    return (
        Run("create -f -", stdin=job(f"to-{name}", "sleep 1000")),
        Run(f"get pods -l job-name=to-{name}", ("Running",), again=True),
        Run(f"delete job to-{name} --cascade={name}", ("deleted",)),
        Run(f"get job to-{name}", ("not found",), code=1, again=True),
        Run(f"get pods -l job-name=to-{name}", (then,), again=True),
    )


def config_map(name: str, value: str) -> str:
    return CONFIG_MAP.format(name=name, value=value)


def service(port: int) -> str:
    return SERVICE.format(name="applied", port=port)


CASES = (
    Case(
        "a kind that the cluster lacks",
        (
            Run(
                "apply -f -",
                (r'no matches for kind "Widget" in version "example.com/v1"',),
                ("turn validation off",),
                code=1,
                stdin="apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n",
            ),
        ),
    ),
    Case(
        "the chapter's job",
        (
            Run("create namespace ml", ("created",)),
            Run("apply -f -", ("latticejob.lattice.dev/training-run-42 created",), stdin=TRAINING),
            Run(
                "get latticejobs -n ml",
                ("NAME PHASE QUEUE", "training-run-42 Pending ml-training"),
                again=True,
            ),
            Run(
                "describe latticejob -n ml", ("Warning Denied", "the store default lacks values"), again=True
            ),
            Run(
                "apply -f -",
                ("latticejob.lattice.dev/training-run-42 configured",),
                stdin=TRAINING.replace("queue: ml-training", "queu: ml-training"),
            ),
            Run(
                "get latticejobs -n ml -o jsonpath={.items[0].status.findings}",
                ("did you mean queue",),
                again=True,
            ),
            Run("get batchjobs -n ml -o jsonpath={.items[0].spec.queu}", ("ml-training",)),
            Run("delete -f -", ("deleted",), stdin=TRAINING),
            Run("get batchjobs -n ml", ("No resources found",), again=True),
            Run("delete namespace ml", ("deleted",)),
        ),
        embedded_only="a real cluster has LatticeJobs only if the chart's value says so",
    ),
    Case(
        "create and replace",
        (
            Run("create -f -", ("configmap/made created",), stdin=config_map("made", "one")),
            Run("create -f -", ("AlreadyExists",), code=1, stdin=config_map("made", "one")),
            Run(
                "replace -f -",
                ("configmap/made replaced",),
                stdin=config_map("made", "two"),
            ),
            Run("get cm made -o jsonpath={.data.a}", ("^two$",)),
            Run(
                "create --dry-run=server -f -",
                (r"configmap/dry created \(server dry run\)",),
                stdin=config_map("dry", "one"),
            ),
            Run("create cm dry2 --from-literal=a=b --dry-run=client -o yaml", ("^  a: b$",)),
            Run("get cm dry", ("not found",), code=1),
            Run("delete cm made", ("deleted",)),
        ),
    ),
    Case(
        "validation",
        (
            Run(
                "create -f -",
                ("strict decoding error: unknown field", "spec.nodName"),
                code=1,
                stdin=POD.format(name="strict").replace("nodeName", "nodName"),
            ),
            Run(
                "create --validate=warn -f -",
                ('Warning: unknown field "spec.nodName"', "pod/warned created"),
                stdin=POD.format(name="warned").replace("nodeName", "nodName"),
            ),
            Run(
                "create --validate=ignore --dry-run=server -f -",
                ("pod/ignored created",),
                never=("unknown field",),
                stdin=POD.format(name="ignored").replace("nodeName", "nodName"),
            ),
            Run("delete pod warned --now", ("deleted",)),
        ),
    ),
    Case(
        "apply",
        (
            Run("apply -f -", ("service/applied created",), stdin=service(80)),
            Run("apply -f -", ("service/applied unchanged",), stdin=service(80)),
            Run(
                "diff -f -",
                (r"^\+ port: 81$", "^- port: 80$"),
                code=1,
                stdin=service(81),
            ),
            Run("apply -f -", ("service/applied configured",), stdin=service(81)),
            Run("get svc applied -o jsonpath={.spec.ports[*].port}", ("^81$",)),
            Run("diff -f -", stdin=service(81)),
            Run("apply view-last-applied svc applied", ("port: 81",)),
            Run("apply -f - --dry-run=server", ("configured",), stdin=service(82)),
            Run("delete -f -", ("deleted",), stdin=service(81)),
        ),
    ),
    Case(
        "apply on the server's side",
        (
            Run("apply --server-side -f -", ("serverside-applied",), stdin=config_map("owned", "one")),
            Run("apply --server-side -f -", ("serverside-applied",), stdin=config_map("owned", "two")),
            Run("get cm owned -o jsonpath={.data.a}", ("^two$",)),
            Run(
                "apply --server-side --field-manager=other -f -",
                ('conflict with "kubectl".*: .data.a',),
                code=1,
                stdin=config_map("owned", "three"),
            ),
            Run(
                "apply --server-side --field-manager=other --force-conflicts -f -",
                ("serverside-applied",),
                stdin=config_map("owned", "three"),
            ),
            Run("get cm owned -o yaml --show-managed-fields", ("manager: other", "operation: Apply")),
            Run(
                "apply --server-side -f -",
                ('conflict with "other"',),
                code=1,
                stdin=config_map("owned", "four"),
            ),
            Run("""patch cm owned --type=merge -p '{"data":{"b":"mine"}}'""", ("patched",)),
            Run(
                "apply --server-side --field-manager=other -f -",
                stdin=config_map("owned", "three").replace("a: three", "c: four"),
            ),
            Run("get cm owned -o jsonpath={.data}", ('"b":"mine"', '"c":"four"'), never=('"a"',)),
            Run("delete cm owned", ("deleted",)),
        ),
    ),
    Case(
        "edit",
        (
            Run("create -f -", stdin=config_map("edited", "one")),
            Run("edit cm edited", ("configmap/edited edited",), environ=EDITOR),
            Run("get cm edited -o jsonpath={.data.a}", ("^edited$",)),
            Run("edit cm edited", ("no changes made|Edit cancelled",), environ=(("KUBE_EDITOR", "true"),)),
            Run("delete cm edited"),
        ),
    ),
    Case(
        "patch, label, annotate",
        (
            Run("create -f -", stdin=POD.format(name="patched")),
            Run("""patch pod patched -p '{"metadata":{"labels":{"z":"1"}}}'""", ("pod/patched patched",)),
            Run(
                """patch pod patched -p '{"spec":{"containers":[{"name":"c","image":"other"}]}}'""",
                ("pod/patched patched",),
            ),
            Run("get pod patched -o jsonpath={.spec.containers[0].command[0]}", ("^sh$",)),
            Run("""patch pod patched --type=merge -p '{"metadata":{"labels":{"z":null}}}'""", ("patched",)),
            Run("get pod patched --show-labels", never=("z=1",)),
            Run(
                "patch pod patched --type=json "
                """-p '[{"op":"add","path":"/metadata/labels/y","value":"1"}]'""",
                ("patched",),
            ),
            Run("""patch pod patched -p '{"metadata":{"labels":{"y":"1"}}}'""", (r"patched \(no change\)",)),
            Run("label pod patched k=v", ("labeled",)),
            Run("label pod patched k=w", ("already has a value",), code=1),
            Run("label pod patched k=w --overwrite", ("labeled",)),
            Run("label pod patched k-", ("unlabeled",)),
            Run("annotate pod patched k=v", ("annotated",)),
            Run("set image pod/patched c=third", ("image updated",)),
            Run("get pods -l y=1 -o name", ("^pod/patched$",)),
            Run("delete pod patched --now", ("deleted",)),
        ),
    ),
    Case(
        "delete with each cascade",
        (
            *_cascade("background", "No resources found"),
            *_cascade("foreground", "No resources found"),
            *_cascade("orphan", "Running"),
            Run("delete pods -l job-name=to-orphan --grace-period=0 --force", ("force deleted",)),
            Run("get pods -l job-name=to-orphan", ("No resources found",), again=True),
        ),
    ),
    Case(
        "explain",
        (
            Run(
                "explain pod.spec.containers",
                ("^KIND: Pod$", "FIELD: containers <.*Container>", "image <string>"),
            ),
            Run("explain job.spec --recursive", ("backoffLimit <integer>", "template <PodTemplateSpec>")),
            Run("explain queue.spec", ("GROUP: muster.dev", "weight <integer>"), never=("error",)),
            Run("explain pod.nothing", ('field "nothing" does not exist',), code=1),
        ),
    ),
    Case(
        "what cannot be scaled or rolled out",
        (
            Run("create -f -", stdin=job("fixed")),
            Run("scale job fixed --replicas=2", ("NotFound",), code=1),
            Run("rollout status job/fixed", ("no status viewer",), code=1),
            Run("delete job fixed"),
        ),
    ),
)
