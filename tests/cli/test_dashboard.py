"""What `muster dashboard` refuses before it serves anything."""

import sys
from pathlib import Path

import pytest
import yaml

from muster.app.wiring.cluster import Target
from muster.cli import main as cli
from muster.kube.http import Connection


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["muster", "dashboard", *words])
    with pytest.raises(SystemExit) as exit:
        cli.main()
    assert exit.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--host", "muster.example.org"), "--host is for --listen"),
        (("--listen", ":0", "--tls-cert", "a"), "--tls-cert and --tls-key belong together"),
        (("--listen", ":0", "--tls-key", "a"), "--tls-cert and --tls-key belong together"),
        (("--tls-cert", "a", "--tls-key", "b"), "--tls-cert is for --listen"),
        (("--listen", ":0", "--tls-cert", "/no/a", "--tls-key", "/no/b"), "/no/a: cannot be read"),
        (("--listen", ":x"), "write HOST:PORT, such as :8081"),
        (("--listen", ":99999"), "write HOST:PORT"),
        (("--listen", f":{'9' * 5000}"), "write HOST:PORT"),
    ],
)
def test_addresses_that_cannot_be_served(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert says in refused(capsys, monkeypatch, *words)


def test_output_is_read_with_tokens_so_no_certificate_may_say_who_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Target, "connection", Connection("https://10.1.2.3", certified=True))
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump({}))
    told = refused(capsys, monkeypatch, "--listen", ":0", "--kubeconfig", str(file))
    assert "use a kubeconfig with a token, not with a client certificate" in told
