"""The scheduler as a pure library: events in, decisions out.

    scheduler = Scheduler(config)         # core/cycle/__init__.py
    scheduler.apply(event)                # core/words/events.py, about what core/words/gang.py defines
    decisions = scheduler.decide(now)     # core/words/decisions.py

Knows nothing of Kubernetes, clocks, sockets or threads. Times are seconds since the epoch (float),
amounts are integers: milli-CPU, bytes, pieces for everything else.
"""
