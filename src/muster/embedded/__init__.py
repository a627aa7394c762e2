"""The embedded cluster: a store with Kubernetes' semantics, an HTTP API in front of it, and a node agent."""
