"""What may be emitted, and by whom: Cedar policies that are asked about every object before it is applied.

`requests` reads from a compiled draft what has to be asked, `policies` holds the administrator's answers, and
`gates` brings the two together.
"""
