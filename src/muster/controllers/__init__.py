"""Controllers: pure reconcile functions that turn what is observed into effects. One driver runs them all.

A controller keeps no state of its own: counters in objects only grow, stale objects name their
attempt, and running a reconcile twice changes nothing.
"""
