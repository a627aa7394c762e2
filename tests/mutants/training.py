"""Deliberate faults in what people who train models rely on: causes, environments, containers of pods."""

from typing import Final

from tests.mutants.faults import Fault

_FAILURES: Final = ("tests/api/test_failures.py",)
_CAUSE: Final = "one cause"
_ENVIRONMENT: Final = "ranks"
_FIELDS: Final = "no field is silent"

FAULTS: Final = (
    Fault(
        "the signal with which a Job stops a container hides the code with which it failed before",
        _CAUSE,
        "api/failures.py",
        "    ends = [] if last is None or last == now else",
        "    ends = [] if True else",
        _FAILURES,
    ),
    Fault(
        "a pod that was stopped counts as one that failed",
        _CAUSE,
        "api/failures.py",
        "            if not end.exit_code or _after_deletion(pod, end):",
        "            if not end.exit_code:",
        _FAILURES,
    ),
    Fault(
        "the condition keeps the pod whose status came first",
        _CAUSE,
        "controllers/jobset/reconcile.py",
        "corrected(message, observed.pods, jobset.status.restarts)",
        "message",
        ("tests/controllers/test_jobset.py",),
    ),
    Fault(
        "WORLD_SIZE counts GPUs while RANK counts pods",
        _ENVIRONMENT,
        "workloads/training.py",
        'plain("WORLD_SIZE", str(pods))',
        'plain("WORLD_SIZE", str(pods * processes))',
        ("tests/workloads/test_training.py",),
    ),
    Fault(
        "init containers do not know their rank",
        _ENVIRONMENT,
        "workloads/training.py",
        '    yield from pod.get("initContainers") or []',
        "    yield from ()",
        ("tests/workloads/test_training.py",),
    ),
    Fault(
        "all jobs of a machine listen on one port",
        _ENVIRONMENT,
        "workloads/training.py",
        "zlib.crc32(host.encode()) % len(PORTS)",
        "9_500",
        ("tests/workloads/test_training.py",),
    ),
    Fault(
        "ranks of trainers begin after the groups before them",
        _ENVIRONMENT,
        "workloads/training.py",
        "            return JOB_INDEX",
        "            return JOB_GLOBAL_INDEX",
        ("tests/workloads/test_training.py",),
    ),
    Fault(
        "a sidecar that is stopped after the others has failed",
        _CAUSE,
        "api/failures.py",
        "            if over and end is now and status.name in sidecars:",
        "            if False:",
        _FAILURES,
    ),
    Fault(
        "a field of a volume is ignored silently",
        _FIELDS,
        "workloads/pod_fields.py",
        '{"mode": "its directories',
        '{"medium": "its directories',
        ("tests/workloads/test_pod_fields.py",),
    ),
    Fault(
        "a command gets SIGTERM while its preStop hook runs",
        _FIELDS,
        "embedded/node/hooks.py",
        '                failed = await _run(machine, pod, container, start, "preStop")',
        '                asyncio.create_task(_run(machine, pod, container, start, "preStop"))',
        ("tests/embedded/node/test_hooks.py",),
    ),
    Fault(
        "a container runs before its postStart hook is over",
        _FIELDS,
        "embedded/node/pod.py",
        '"" if container.state.running else await hooks.started(self._machine, self.pod, container, start)',
        '""',
        ("tests/embedded/node/test_hooks.py",),
    ),
    Fault(
        "a pod that exceeds a sizeLimit goes on",
        _FIELDS,
        "embedded/node/usage.py",
        "used(path, limit, stopped) > limit:",
        "False:",
        ("tests/embedded/node/test_usage.py",),
    ),
    Fault(
        "a file of two names takes twice its size",
        _FIELDS,
        "embedded/node/usage.py",
        " // (found.st_nlink or 1)",
        "",
        ("tests/embedded/node/test_usage.py",),
    ),
    Fault(
        "the API accepts a Service whose ports nothing translates",
        _FIELDS,
        "embedded/verbs/admission.py",
        "    if kind is kinds.SERVICE and old is None and",
        "    if False and",
        ("tests/embedded/verbs/test_registry.py",),
    ),
    Fault(
        "hostAliases are names of all pods of the namespace",
        _FIELDS,
        "embedded/node/dns.py",
        'f"{namespace}{_MARK}{digest}")',
        "namespace)",
        ("tests/embedded/node/test_dns.py",),
    ),
    Fault(
        "names of pods that come later are unknown to pods with hostAliases",
        _FIELDS,
        "embedded/node/dns.py",
        "                aliases.set(self._table(aliases.file), key, pod.status.pod_ip, names)",
        "                pass",
        ("tests/embedded/node/test_dns.py",),
    ),
    Fault(
        "a probe that ends a container leaves no Event",
        _FIELDS,
        "embedded/node/pod.py",
        "            await tell(self._machine, self.pod, container, UNHEALTHY, ended)",
        "            pass",
        ("tests/embedded/node/test_pod_fields.py",),
    ),
)
