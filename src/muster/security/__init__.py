"""Cedar policies that decide about every object before it is applied: which user or task may emit it.

`requests` reads from a compiled draft what has to be asked, `policies` holds the administrator's answers, and
`gates` brings the two together.
"""
