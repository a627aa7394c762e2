"""Compiles a workload to the objects that it needs, or to everything that keeps it from being compiled.

`workload` is what goes in, `compile` the pipeline, `draft` what comes out. The package is pure, and knows
nothing of jobs: a batch job compiles one workload per task (`workloads/batch`).
"""

from muster.compiler.draft import Draft
from muster.compiler.facts import Facts
from muster.compiler.pipeline import compile_workload
from muster.compiler.workload import Workload

__all__ = ["Draft", "Facts", "Workload", "compile_workload"]
