"""The scheduler as a pure library: events in, decisions out.

    scheduler = Scheduler(config)
    scheduler.apply(event)
    decisions = scheduler.decide(now)

Knows nothing of Kubernetes, clocks, sockets or threads. Times are seconds since the epoch (float),
amounts are integers: milli-CPU, MiB for byte-valued resources, pieces for everything else.
"""
