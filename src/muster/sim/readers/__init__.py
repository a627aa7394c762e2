"""Readers of traces, one file per format. Each line is read or refused as a whole."""
