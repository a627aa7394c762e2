"""What other users of the machine can read of muster's processes holds no secret."""

import base64
import json
from contextlib import suppress
from pathlib import Path

from muster.embedded import credentials
from tests.cli.binary import Muster, until

SECRET = "dG8gYmUga2VwdA"


def test_no_process_has_the_token_or_a_secret_in_its_arguments(muster: Muster) -> None:
    """While the cluster runs, a command follows a job, and a pod has a Secret in a lower-case variable."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"password": base64.b64encode(SECRET.encode()).decode()},
    }
    container = {
        "name": "c",
        "image": "x",
        "command": ["sh", "-c", 'test -n "$password" && sleep infinity'],
        "envFrom": [{"secretRef": {"name": "s"}}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    muster.run("up", "--detach")
    muster.file("job.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [secret, pod]}))
    muster.run("submit", "job.json")
    token = credentials.token_file(muster.home).read_text().strip()
    with_secret = 0

    def runs() -> bool:
        nonlocal with_secret
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                arguments, environ = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
                assert token.encode() not in arguments + environ
                assert SECRET.encode() not in arguments
                with_secret += b"password=" + SECRET.encode() in environ
        return bool(with_secret)

    until(runs, "the pod to run with its secret")
    muster.run("cancel", "p")
    muster.run("down")
