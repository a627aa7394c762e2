"""The idea in a minute, measured while it is shown.

`deadlock` lets two jobs fight for GPUs pod by pod, then as gangs; `recovery` kills a worker of a running
job and lets it recover. Both run real processes on an embedded cluster of their own, in a directory
that is removed afterwards. Nothing is printed here.
"""
