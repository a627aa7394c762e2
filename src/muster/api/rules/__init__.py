"""Defaults and validation per kind, as an API server applies them: one module per subject.

Each has `default(obj) -> obj`, which may complete the object in place, and `validate(obj, old)`, where
`old` is the state before an update. Both get JSON that has been read as the kind's struct before, so types
are right; only values are left to check.
"""
