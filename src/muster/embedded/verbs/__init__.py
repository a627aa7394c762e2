"""Kubernetes' verbs on the store: what writes check, complete and take with them, and how reads select."""
