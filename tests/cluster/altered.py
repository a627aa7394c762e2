"""`python -m tests.cluster.altered AHEAD HOLDS …`: `muster …` with another wall clock, or with fewer binds.

AHEAD are the seconds by which its wall clock is ahead. HOLDS is `GANG=PODS`: it binds so many pods of this
gang and no more. A test that stops or kills it does so before the gang is whole, however late it comes.
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from muster.api.base import Object
from muster.cli.main import main
from muster.kube.clock import SystemClock
from muster.kube.http import HttpClient

if __name__ == "__main__":
    ahead = timedelta(seconds=float(sys.argv.pop(1)))
    gang, _, pods = sys.argv.pop(1).partition("=")
    left, send = int(pods or 0), HttpClient.bind

    async def bind(self: HttpClient, namespace: str, name: str, binding: Object) -> None:
        global left
        if gang and name.startswith(f"{gang}-"):
            left -= 1
            if left < 0:
                await asyncio.Event().wait()
        await send(self, namespace, name, binding)

    SystemClock.now = lambda self: datetime.now(UTC) + ahead  # type: ignore[method-assign]
    HttpClient.bind = bind  # type: ignore[method-assign]
    main()
