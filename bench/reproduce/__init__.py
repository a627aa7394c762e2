"""`make reproduce`: experiments that others have published, run again on muster's core and held against
print.

A module per experiment with a function `figures(traces, jobs)`; the traces themselves are not ours to hand
on, and are looked for under `$MUSTER_TRACES`. What comes out stands in docs/internals/performance.md.
"""
