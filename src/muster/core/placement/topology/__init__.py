"""Places gangs with rules about the network topology: `TopologyPlacement` in `search.py`.

Other packages also use `Nearest` of that module, and `resolve` of `rules.py`. The rest is this package's own.
"""
