"""Kubernetes' paths over TLS: from the bytes of a request to those of its answer."""
