"""The simulator: traces of jobs, run through the scheduler itself in virtual time.

A reader (`readers/`) turns a file into jobs in order of submission. The engine (`engine.py`) simulates the
cluster for the core: gangs arrive, pods that the core assigns are bound at once, and end when their run time
is over. It only passes events to the core and calls `decide`, so the code that is measured is the code that
runs in production. `metrics.py` defines the results. `recheck.py` replays the journal of a live scheduler
instead, and compares each decision with the recorded one.
"""
