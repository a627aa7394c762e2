"""The dashboard in a real browser, on an embedded cluster (`make test-browser`)."""
