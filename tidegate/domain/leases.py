"""A lease is not a lock.

A lock is held until it is released. A lease is held until a clock says otherwise, and the holder may be asleep when it
does: stopped by a debugger, a full disk, a paused machine. It wakes up, believes that it still leads, and writes. Three
things together make that harmless, and none of them alone does.

*The holder trusts itself for less time than others grant it.* It counts its window from the moment it asked, not from
the moment the answer came, and takes a margin off. Whatever the network did in between can then only shorten its trust.
(The idea is River's; many others count from the answer and are late by a round trip.)

*Renewal is not acquisition.* To renew, the lease must be mine and unexpired and of the epoch I registered with. Once it
has expired, even its last holder must take it anew and gets a higher token. A condition that says "expired or mine"
would let a stale leader, who is fenced everywhere else, steal its lease back for ever.

*Every write carries the token.* Trust is a courtesy that saves useless work; what refuses a stale write is the store,
which compares the token in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.instants import SECOND, Duration, Instant

MARGIN = SECOND
"""What a holder takes off its term: more than a database and a network usually need to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A duty that this process holds, with the token that its writes carry."""

    duty: str
    token: int
    asked_at: Instant
    term: Duration

    def trusted(self, now: Instant, margin: Duration = MARGIN) -> bool:
        """Whether the holder may still act on it, at the database's `now`."""
        return now < self.asked_at + self.term - margin
