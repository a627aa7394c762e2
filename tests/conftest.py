"""What holds for all tests."""

import asyncio

# Says that no event loop is current. Left unsaid, pytest-asyncio makes one when it asks which is, and nobody
# closes it.
asyncio.set_event_loop(None)
