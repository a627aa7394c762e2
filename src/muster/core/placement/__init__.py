"""Does a gang fit, and where: packing, constraints, topology and exact search (`fit.py` is the way in)."""
