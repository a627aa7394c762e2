"""Compiles job files to objects, and reports errors with their place. One module or package per format."""
