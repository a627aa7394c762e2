"""`muster demo`: shows in a minute why gangs are needed, and measures it.

`deadlock` runs two jobs that compete for GPUs, first pod by pod, then as gangs. `recovery` kills a worker of
a running job and lets the job recover. Both run real processes on an embedded cluster of their own, in a
directory that is removed afterwards. This package prints nothing.
"""
