"""Limits requests by a token bucket: a number per second in the long run, and a burst at once."""

from muster.kube.clock import Clock, SystemClock


class Bucket:
    """Requests wait their turn in order of arrival (after client-go's `util/flowcontrol`)."""

    def __init__(self, rate: float = 0.0, burst: int = 0, clock: Clock | None = None) -> None:
        """`rate`: requests per second, 0 = no limit; `burst`: 0 = as many as in a second, at least one."""
        self._clock = clock or SystemClock()
        self._free_at = 0.0  # when the bucket has been full, or will be, but for what was taken
        self.set(rate, burst)

    def set(self, rate: float, burst: int = 0) -> None:
        """Changes the limit for requests that have not asked yet."""
        self._pause = 1.0 / rate if rate > 0 else 0.0
        self._burst = burst if burst > 0 else max(1, int(rate))

    async def take(self) -> float:
        """Waits until a request may go out, and returns the seconds that this took."""
        if not self._pause:
            return 0.0
        now = self._clock.monotonic()
        # virtual scheduling: a request may be early by all but one of a burst
        self._free_at = max(self._free_at, now) + self._pause
        wait = self._free_at - self._burst * self._pause - now
        if wait <= 0:
            return 0.0
        await self._clock.sleep(wait)
        return wait
