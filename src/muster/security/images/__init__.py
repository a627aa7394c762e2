"""What is known of an image before it runs: its digest, its entry point, and who has signed it.

`reference` parses names, `trust` says which images need whose signature, `cosign` checks signatures,
`registry` talks to a registry, and `verify` is the path through them.
"""
