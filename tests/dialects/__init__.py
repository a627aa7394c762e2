"""What muster makes of the objects of other schedulers, field by field: tables, and the pages made from them.

`python -m tests.dialects` writes the pages of docs/reference/dialects; `test_pages` compares them.
"""
