"""The simulator: traces of jobs, run through the scheduler itself in virtual time.

A reader (`readers/`) turns a file into jobs in order of submission; the engine (`engine.py`) plays the
cluster to the core: gangs arrive, what the core assigns is bound at once, and ends when its run time is
over. It tells the core events and asks it to `decide`, nothing else: what is measured is what would run.
`metrics.py` says what comes out of it. `recheck.py` replays the journal of a live scheduler instead, and
holds each decision against the one that was made.
"""
