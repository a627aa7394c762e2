"""Which proxy a request uses."""

import pytest
from yarl import URL

from muster.kube import proxies
from muster.kube.proxies import Proxies, UnusableProxy, choose

PROXY = "http://proxy.example.com:3128"
BOTH = {"https": PROXY, "http": "http://plain.example.com:80"}
CHOSEN: dict[str, tuple[str, Proxies, str | None]] = {
    "https": ("https://ghcr.io/v2/", BOTH, PROXY),
    "http": ("http://ghcr.io/v2/", BOTH, "http://plain.example.com"),
    "another scheme's": ("https://ghcr.io/v2/", {"http": PROXY}, None),
    "none": ("https://ghcr.io/v2/", {}, None),
    "without a scheme": ("https://ghcr.io/v2/", {"https": "proxy.example.com:3128"}, PROXY),
    "NO_PROXY: the host": ("https://ghcr.io/v2/", BOTH | {"no": "quay.io, ghcr.io"}, None),
    "NO_PROXY: a domain": ("https://eu.ghcr.io/v2/", BOTH | {"no": ".ghcr.io"}, None),
    "NO_PROXY: the host and its port": ("https://ghcr.io:5000/v2/", BOTH | {"no": "ghcr.io:5000"}, None),
    "NO_PROXY: another port": ("https://ghcr.io:5000/v2/", BOTH | {"no": "ghcr.io:5001"}, PROXY),
    "NO_PROXY: a pattern": ("https://eu.ghcr.io/v2/", BOTH | {"no": ",*.ghcr.io"}, None),
    "NO_PROXY: all": ("https://ghcr.io/v2/", BOTH | {"no": "*"}, None),
    "NO_PROXY: a network": ("https://10.1.2.3/v2/", BOTH | {"no": "10.0.0.0/8"}, None),
    "NO_PROXY: another network": ("https://11.1.2.3/v2/", BOTH | {"no": "10.0.0.0/8,x/y"}, PROXY),
    "NO_PROXY: the end of a name is no domain": (
        "https://evilghcr.io/v2/",
        BOTH | {"no": "ghcr.io"},
        PROXY,
    ),
    "this machine": ("https://127.0.0.1:5000/v2/", BOTH, None),
    "this machine by name": ("http://localhost:5000/v2/", BOTH, None),
}


@pytest.mark.parametrize(("url", "known", "expected"), CHOSEN.values(), ids=CHOSEN)
def test_the_proxy_of_a_request(url: str, known: Proxies, expected: str | None) -> None:
    found = choose(URL(url), known)
    assert (str(found.url).rstrip("/") if found is not None else None) == expected


def test_credentials_without_tls_pass_no_proxy() -> None:
    assert choose(URL("http://tokens.internal/"), BOTH, secret=True) is None
    assert choose(URL("https://ghcr.io/"), BOTH, secret=True) is not None


@pytest.mark.parametrize("named", ["socks5://u:secret@p:1080", "http://", "http://u:secret@[", "ftp://p"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(named: str) -> None:
    with pytest.raises(UnusableProxy, match="HTTPS_PROXY is not an http") as told:
        choose(URL("https://ghcr.io/"), {"https": named})
    assert "secret" not in str(told.value)


def test_the_environment_counts_in_capitals_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("no_proxy", "ghcr.io")
    known = proxies.of_environment()
    assert choose(URL("https://ghcr.io/"), known) is None
    assert choose(URL("https://quay.io/"), known) is not None
