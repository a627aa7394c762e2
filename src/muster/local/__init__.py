"""The embedded cluster: a store with Kubernetes' semantics, a door in front of it, a node agent behind it."""
