"""Cedar policies that permit or deny what a batch job gets, before any object is applied.

`requests` derives from a compiled draft what needs a permit, `policies` holds the administrator's policies,
and `gates` asks these about the requests.
"""
