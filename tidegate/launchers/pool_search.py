"""Who has an attempt: asks every living host of the home and reads the journals of the dead ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tidegate.launchers import pool_journal, pool_wire
from tidegate.launchers.pool_link import Link, fingerprint, who
from tidegate.launchers.processes import alive, kill_tree

ANSWER_WITHIN = 5.0
"""Seconds for a host to answer; one that holds its interpreter's lock for longer is `silent`."""
GATHER = 0.001
"""Seconds in which questions are put together: a worker that adopts thousands asks in a few frames."""


class Search:
    """`find` answers (link, state): state is running, queued, [outcome, error, at], gone (crashed) or silent."""

    def __init__(self, pools: Path, links: list[Link], connect: Callable[[Link], None]) -> None:
        self._pools = pools
        self._links = links
        self._connect = connect
        self._dead: dict[str, Any] = {}
        self._left: dict[Path, set[str]] = {}
        """Directories of dead hosts, with the identities whose ends lie in them and are not on record yet."""
        self._asked: dict[int, tuple[Link, asyncio.Future[dict[str, Any]]]] = {}
        self._tokens = itertools.count()
        self._round: asyncio.Task[dict[str, tuple[Link | None, Any]]] | None = None
        self._wanted: list[str] = []

    async def look(self) -> None:
        """Connect to hosts that are not known yet, and read what dead ones have left."""
        known = {link.directory for link in self._links} | self._left.keys()
        for directory in self._pools.glob("*"):
            if directory in known or (told := who(directory)) is None:
                continue
            ref, print_of_it = told
            if not alive(ref):
                await asyncio.to_thread(kill_tree, ref)
                self.bury(directory, pool_journal.read(str(directory)), mine=())
                continue
            with contextlib.suppress(OSError):
                peer = pool_wire.connect(str(directory))
                link = Link(directory, peer, ref, fit=print_of_it == fingerprint())
                self._connect(link)
                if link.retiring:
                    link.say("quit")  # of another time: it ends when it has done what it has

    async def find(self, identity: str) -> tuple[Link | None, Any] | None:
        """Who has it, and how it stands there; None when nobody has."""
        self._wanted.append(identity)
        if self._round is None:
            self._round = asyncio.create_task(self._ask_all())
        states = await asyncio.shield(self._round)
        return states.get(identity)

    async def _ask_all(self) -> dict[str, tuple[Link | None, Any]]:
        await asyncio.sleep(GATHER)
        wanted, self._wanted, self._round = self._wanted, [], None
        await self.look()
        states: dict[str, tuple[Link | None, Any]] = {}
        asked = []
        for link in [link for link in self._links if not link.dead]:
            token = next(self._tokens)
            answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._asked[token] = link, answer
            link.say("find", token, wanted)
            link.flush()
            asked.append((token, link, answer))
        if asked:
            await asyncio.wait([answer for _, _, answer in asked], timeout=ANSWER_WITHIN)
        for token, link, answer in asked:
            del self._asked[token]
            if answer.done():
                states |= {identity: (link, state) for identity, state in answer.result().items()}
            elif not link.dead:
                states = dict.fromkeys(wanted, (None, "silent")) | states
        for identity in wanted:
            if identity in self._dead:
                states[identity] = (None, self._dead[identity])
        return states

    def answer(self, token: int, link: Link, states: dict[str, Any]) -> None:
        if token in self._asked and not self._asked[token][1].done():
            self._asked[token][1].set_result(states)

    def bury(self, directory: Path, found: pool_journal.Found, mine: Collection[str]) -> None:
        """Keep what a dead host's journal says until it is on record, then remove its directory.

        `mine` are attempts whose ends are known here anyway; their identities are only waited for.
        """
        told: dict[str, Any] = dict(found.finished)
        for identity in found.running:
            killed = identity in found.killed
            error = {"code": "program.stopped", "message": "Ended by force.", "exit_status": None}
            told[identity] = ["cancelled", error, 0] if killed else "gone"
        self._left[directory] = set(told)
        self._dead |= {identity: state for identity, state in told.items() if identity not in mine}
        for _, (link, answer) in list(self._asked.items()):
            if link.directory == directory and not answer.done():
                answer.set_result({})
        self._remove_empty()

    def forget(self, identity: str) -> None:
        if not self._left:
            return
        self._dead.pop(identity, None)
        for identities in self._left.values():
            identities.discard(identity)
        self._remove_empty()

    def _remove_empty(self) -> None:
        for directory in [directory for directory, identities in self._left.items() if not identities]:
            shutil.rmtree(directory, ignore_errors=True)
            del self._left[directory]
