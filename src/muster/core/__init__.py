"""The scheduler as a pure library: events in, decisions out.

    scheduler = Scheduler(config)         # core/scheduler.py
    scheduler.apply(event)                # core/events.py, about what core/gang.py defines
    decisions = scheduler.decide(now)     # core/decisions.py

Knows nothing of Kubernetes, clocks, sockets or threads. Times are seconds since the epoch (float),
amounts are integers: milli-CPU, bytes, pieces for everything else.
"""
