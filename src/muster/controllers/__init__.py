"""Reconcile functions: what is observed in, a list of effects out. One driver runs them all.

A controller keeps no state of its own: counters in objects only grow, stale objects name their
attempt, and running a reconcile twice changes nothing.
"""
