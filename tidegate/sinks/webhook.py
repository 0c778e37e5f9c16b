"""A webhook: every event a POST, signed as Standard Webhooks says (https://www.standardwebhooks.com).

The lanes go side by side, within a lane one request follows the other. A request that fails is tried a few times at
once; then the sink takes nothing until it works again. What the address says of a single event (400, 413, 422) sets
that event aside; what it says of itself (401, 404, 500) holds up all, so that a wrong address loses nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import httpx
from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidegate.documents.references import revealed
from tidegate.domain.signing import key_of, signature
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.sinks import Delivery, Message
from tidegate.sinks.background import BackgroundSink

LANES = 8
"""So many requests at once."""
TIMEOUT = 10.0
"""Seconds for one request."""
TRIES = 3
AT_ONCE = 500
"""So many events of a batch are delivered before the place is kept; then come the others."""
_BODY = 64 * 1024
"""Bytes of an answer for which its connection is kept."""
_REFUSED = frozenset({400, 413, 415, 422})


class _Again(Exception):
    """Worth another try."""


class WebhookSink(BackgroundSink):
    def __init__(self, name: str, spec: SinkSpec, changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self._url = spec.url
        self._key = key_of(revealed(spec.secret)) if spec.secret else None
        headers = {"content-type": "application/json", "user-agent": f"tidegate-{name}"}
        limits = httpx.Limits(max_connections=LANES)
        self._client = httpx.AsyncClient(timeout=TIMEOUT, headers=headers, limits=limits, follow_redirects=False)

    async def deliver(self, messages: Sequence[Message]) -> Delivery:
        taken = [False] * len(messages)
        refused: dict[int, str] = {}
        faults: list[str] = []
        lanes: dict[str, list[int]] = {}
        for place, one in enumerate(messages[:AT_ONCE]):
            lanes.setdefault(one.lane, []).append(place)
        free = asyncio.Semaphore(LANES)

        async def follow(places: Sequence[int]) -> None:
            for place in places:
                async with free:
                    if faults:
                        return
                    try:
                        why = await self._post(messages[place])
                    except _Again as fault:
                        faults.append(str(fault))
                        return
                taken[place] = True
                if why:
                    refused[place] = why

        await asyncio.gather(*(follow(places) for places in lanes.values()))
        passed = next((place for place, done in enumerate(taken) if not done), len(taken))
        told = tuple((place, why) for place, why in sorted(refused.items()) if place < passed)
        return Delivery(passed=passed, refused=told, fault=faults[0] if faults else "")

    async def close(self) -> None:
        await super().close()
        await self._client.aclose()

    async def _post(self, message: Message) -> str:
        """Why it is refused; empty: it was taken. Raises _Again."""
        tries = AsyncRetrying(
            stop=stop_after_attempt(TRIES),
            wait=wait_random_exponential(multiplier=0.2, max=2),
            retry=retry_if_exception_type(_Again),
            reraise=True,
        )
        try:
            async for attempt in tries:
                with attempt:
                    return await self._once(message)
        except RetryError as fault:
            raise _Again(str(fault)) from None
        raise AssertionError("it ends by an answer or by an exception")

    async def _once(self, message: Message) -> str:
        answer: httpx.Response | None = None
        request = self._client.stream("POST", self._url, content=message.body, headers=self._headers(message))
        try:
            async with asyncio.timeout(TIMEOUT), request as answer:
                await _pass_over(answer)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as fault:
            if answer is None:
                silent = isinstance(fault, TimeoutError | httpx.TimeoutException)
                why = f"no answer within {TIMEOUT:g} s" if silent else str(fault) or type(fault).__name__
                raise _Again(f"The address does not answer: {why}.") from None
        if answer.is_success:
            return ""
        said = f"{answer.status_code} {answer.reason_phrase}".strip()
        if answer.status_code in _REFUSED:
            return f"the address answers {said}"
        raise _Again(f"The address answers {said}.")

    def _headers(self, message: Message) -> dict[str, str]:
        # The attempt's own: receivers refuse what is old. When the event was is in its body.
        stamp = int(time.time())  # noqa: TID251 (a clock of receivers, not of ours)
        headers = {"webhook-id": message.id, "webhook-timestamp": str(stamp), "tidegate-type": message.type}
        if self._key is not None:
            headers["webhook-signature"] = signature(self._key, message.id, stamp, message.body)
        return headers


async def _pass_over(answer: httpx.Response) -> None:
    """Read a body that nobody wants, so that the next request takes the same connection; one that goes on and on costs
    the connection and no more."""
    length = 0
    async for part in answer.aiter_raw():
        length += len(part)
        if length > _BODY:
            return
