"""Looks up what an image is before it runs: its digest, its entry point, and its signatures.

`reference` parses names, `trust` says which images need which signatures, `cosign` checks signatures,
`registry` talks to a registry, and `verify` is the path through them.
"""
