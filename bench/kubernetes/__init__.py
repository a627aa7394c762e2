"""Schedulers side by side on a real control plane; `python -m bench.kubernetes --help`."""
