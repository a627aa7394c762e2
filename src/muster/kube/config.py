"""Which cluster, and who we are there: kubeconfig files, in-cluster service accounts.

Everything that kubeconfig can say (merged files, contexts, exec plug-ins, OIDC, client certificates)
is read by the official client, which is imported here and only when asked for.
"""

import ssl
from collections.abc import Mapping
from typing import Any

from muster.kube.http import Connection


class ConfigError(Exception):
    """The configuration cannot be used; the message says what is wrong with it."""


def load(kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """The connection of a kubeconfig (default: $KUBECONFIG, then ~/.kube/config, then in-cluster)."""
    # imported here: half a second that the embedded cluster never needs
    import kubernetes

    config: Any = kubernetes.config  # Any: its loaders carry no types
    found: Any = kubernetes.client.Configuration()
    namespace = "default"
    try:
        try:
            config.load_kube_config(kubeconfig, context, client_configuration=found)
            _, active = config.list_kube_config_contexts(kubeconfig)
            if context:
                contexts, _ = config.list_kube_config_contexts(kubeconfig)
                active = next(entry for entry in contexts if entry["name"] == context)
            namespace = active["context"].get("namespace") or "default"
        except config.ConfigException:
            if kubeconfig or context:
                raise
            config.load_incluster_config(client_configuration=found)
    except (config.ConfigException, OSError) as error:
        raise ConfigError(f"no usable cluster configuration: {error}") from error

    def headers() -> Mapping[str, str]:
        token = found.get_api_key_with_prefix("authorization") or found.get_api_key_with_prefix("BearerToken")
        return {"Authorization": token} if token else {}

    return Connection(found.host, _tls(found), headers, namespace)


def _tls(found: Any) -> ssl.SSLContext | None:
    """The TLS side of the official client's Configuration."""
    if not found.host.startswith("https"):
        return None
    context = ssl.create_default_context(cafile=found.ssl_ca_cert)
    if found.cert_file:
        context.load_cert_chain(found.cert_file, found.key_file)
    if not found.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
