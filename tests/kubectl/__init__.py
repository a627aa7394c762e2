"""kubectl as people use it, on the embedded cluster and on a real API server: one table of cases for both."""
