"""kubectl as people use it, on the embedded cluster and on a real API server: one table of cases for both."""

from tests.kubectl import devices, reading, running, typed, writing

CASES = (*reading.CASES, *writing.CASES, *typed.CASES, *devices.CASES, *running.CASES)
