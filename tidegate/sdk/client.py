"""`Client`: everything that REST has, typed. Answers are the shapes of `tidegate.sdk.answers` and `.records`.

Names are those of the client's namespace. Whatever is refused raises `Problem`, a server that cannot be reached
`Unavailable`; both are `TidegateError`s. Lists are iterators that ask for page after page as they are read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidegate.domain.events import qualified
from tidegate.domain.instants import format_instant, from_datetime
from tidegate.sdk import answers, records, sink_answers, source_answers, tables
from tidegate.sdk.answers import read
from tidegate.sdk.backfilling import Backfills
from tidegate.sdk.connection import Connection, Problem, log_pieces, segment
from tidegate.sdk.triggers import When

if TYPE_CHECKING:
    from tidegate.sdk.app import App
    from tidegate.sdk.data import Event

T = TypeVar("T", bound=answers.Declared)
S = TypeVar("S")
Document = Mapping[str, Any]
LOOK = 0.5  # seconds between two looks at a run that is waited for
LEDGER = 3600.0  # seconds; a long ledger takes its time


class Client:
    """A connection to one server, for the names of one namespace; threads may share it. Use as a context manager.

    `url`: TIDEGATE_URL unless given, else http://127.0.0.1:7420. `timeout`: seconds for one answer.
    """

    def __init__(self, url: str | None = None, *, namespace: str = "default", timeout: float = 60.0) -> None:
        self._open(Connection(url, timeout=timeout), namespace)

    def _open(self, connection: Connection, namespace: str) -> None:
        self.connection = connection
        self.namespace = namespace
        inside = f"/namespaces/{segment(namespace)}"
        self.schedules = Schedules(self, f"{inside}/schedules", answers.Schedule)
        self.programs = Versioned(self, f"{inside}/programs", answers.Program)
        self.applications = Applications(self, f"{inside}/applications", answers.Declared)
        self.namespaces = Collection(self, "/namespaces", answers.Declared)
        self.pools = Collection(self, "/pools", answers.Pool)
        self.datasets = Collection(self, "/datasets", answers.Dataset)
        self.sinks = Sinks(self, "/sinks", sink_answers.Sink)
        self.sources = Collection(self, "/sources", source_answers.Source)
        self.calendars = Collection(self, "/calendars", answers.Calendar)
        self.policies = Versioned(self, "/policies", tables.Policy)
        self.tables = tables.Tables(self)
        self.runs = Runs(self, f"{inside}/runs")
        self.events = Events(self)
        self.backfills = Backfills(connection, namespace)

    def within(self, namespace: str) -> Client:
        """The same connection, for the names of another namespace."""
        other = Client.__new__(Client)
        other._open(self.connection, namespace)
        return other

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, also of the clients of other namespaces that share it."""
        self.connection.close()

    # ── many documents, and triggers that are not declared ─────────────────────────────────────────────────────────

    def apply(
        self, documents: Iterable[Document], *, on_update: str | None = None, dry_run: bool | None = None
    ) -> tuple[answers.Applied, ...]:
        """Write whole documents (with apiVersion and kind, as in a file): all of them, or none."""
        body = {"documents": [dict(one) for one in documents], "namespace": self.namespace}
        given = self.connection.call("POST", "/apply", body=body, on_update=on_update, dry_run=dry_run)
        return _all(answers.Applied, given)

    def diff(self, documents: Iterable[Document]) -> tuple[answers.Difference, ...]:
        """How each differs from what is stored."""
        body = {"documents": [dict(one) for one in documents], "namespace": self.namespace}
        return _all(answers.Difference, self.connection.call("POST", "/diff", body=body))

    def preview(
        self, trigger: When | Document, *, count: int = 10, after: datetime | str | None = None
    ) -> tuple[answers.Fire, ...]:
        """The next fires of a trigger that is not declared."""
        document = trigger.document if isinstance(trigger, When) else trigger
        body = _said(trigger=document, count=count, after=_instant(after))
        return _all(answers.Fire, self.connection.call("POST", "/preview", body=body))

    # ── the freeze ─────────────────────────────────────────────────────────────────────────────────────────────────

    def frozen(self) -> answers.Freeze:
        """Whether nothing may start."""
        return read(answers.Freeze, self.connection.get("/freeze"))

    def freeze(self, *, reason: str = "") -> answers.Freeze:
        """From now on nothing starts, whoever asks for it; what runs goes on."""
        return read(answers.Freeze, self.connection.call("PUT", "/freeze", body=_said(reason=reason or None)))

    def unfreeze(self) -> None:
        """Things may start again, first those of the highest rank."""
        self.connection.call("DELETE", "/freeze")

    # ── what waits, and what is on record ──────────────────────────────────────────────────────────────────────────

    def queue(self, *, everywhere: bool = False, limit: int | None = None) -> Iterator[answers.QueueItem]:
        """Waiting runs in the order in which they will be looked at, then triggers that are partly satisfied."""
        return self._items(answers.QueueItem, "/queue", limit, namespace=self._unless(everywhere))

    def changes(self, *, everywhere: bool = False, limit: int | None = None) -> Iterator[records.Change]:
        """The audit log: who changed what, when; newest first."""
        return self._items(records.Change, "/audit", limit, namespace=self._unless(everywhere))

    def audit(self, *, everywhere: bool = False, since: datetime | str | None = None) -> records.Proof:
        """Recompute which fires were due and compare with the ledger."""
        given: dict[str, Any] = {"namespace": self._unless(everywhere), "since": _instant(since)}
        return read(records.Proof, self.connection.call("GET", "/audit/ledger", patience=LEDGER, **given))

    def instances(self) -> tuple[records.Instance, ...]:
        """Processes that are alive."""
        return tuple(self._items(records.Instance, "/instances", None))

    def leases(self) -> tuple[records.Lease, ...]:
        """Single-owner duties, and who has them."""
        return tuple(self._items(records.Lease, "/leases", None))

    def health(self) -> records.Health:
        """Whether work gets done, and what is missing for it. Raises Unavailable when nothing answers at all."""
        try:
            self.connection.get("/readyz")
        except Problem as problem:
            if problem.code != "not_ready":
                raise
            return records.Health(missing={fault.path: fault.reason for fault in problem.errors})
        return records.Health(missing={})

    def _unless(self, everywhere: bool) -> str | None:
        return None if everywhere else self.namespace

    def _items(self, shape: type[S], path: str, limit: int | None, **params: Any) -> Iterator[S]:
        return (read(shape, one) for one in self.connection.items(path, most=limit, **params))


class Kept(Generic[T]):
    """Documents of one kind, as they are kept."""

    def __init__(self, client: Client, path: str, shape: type[T]) -> None:
        self._client, self._path, self._shape = client, path, shape

    def get(self, name: str) -> T:
        """One of them."""
        return read(self._shape, self._call("GET", name))

    def list(self, *, limit: int | None = None) -> Iterator[T]:
        """All of them, or so many, newest first."""
        return self._client._items(self._shape, self._path, limit)

    def delete(self, name: str) -> None:
        """Delete it: an application with its programs and schedules, everything else where nothing needs it."""
        self._call("DELETE", name)

    def _call(self, method: str, name: str, rest: str = "", **given: Any) -> Any:
        return self._client.connection.call(method, self._at(name, rest), **given)

    def _at(self, name: str, rest: str = "") -> str:
        return f"{self._path}/{segment(name)}{rest}"


class Collection(Kept[T]):
    """Documents that are written one by one.

    A document is that of YAML as a mapping; apiVersion, kind, namespace and name may be left out where they are known.
    """

    def create(self, document: Document) -> T:
        """Only if there is none of that name yet, else 409."""
        return read(self._shape, self._client.connection.call("POST", self._path, body=dict(document)))

    def put(self, name: str, document: Document) -> T:
        """Create it or bring it to what is declared; an equal document disturbs nothing."""
        return read(self._shape, self._call("PUT", name, body=dict(document)))

    def patch(self, name: str, changes: Document) -> T:
        """RFC 7396: what is given replaces, None takes away, everything else stays."""
        return read(self._shape, self._call("PATCH", name, body=dict(changes)))


class Sinks(Collection[sink_answers.Sink]):
    """Where the event log is delivered to."""

    def replay(self, name: str, *, position: str | None = None) -> int:
        """Send again what it refused: all of it, or one event. How many are sent."""
        return int(self._call("POST", name, ":replay", body=_said(position=position))["events"])


class Versioned(Collection[T]):
    """Documents with revisions. With `revision` a write is refused (412) when it is not the newest any more."""

    def put(self, name: str, document: Document, *, revision: int | None = None, on_update: str | None = None) -> T:
        """Create it or bring it to what is declared. `on_update`: of schedules, `keep` leaves waiting runs."""
        given: dict[str, Any] = {"headers": _if_match(revision), "on_update": on_update}
        return read(self._shape, self._call("PUT", name, body=dict(document), **given))

    def patch(self, name: str, changes: Document, *, revision: int | None = None, on_update: str | None = None) -> T:
        """RFC 7396: what is given replaces, None takes away, everything else stays."""
        given: dict[str, Any] = {"headers": _if_match(revision), "on_update": on_update}
        return read(self._shape, self._call("PATCH", name, body=dict(changes), **given))

    def delete(self, name: str, *, revision: int | None = None) -> None:
        """Nothing of it starts any more; what runs ends by itself. With a program go the schedules that name it."""
        self._call("DELETE", name, headers=_if_match(revision))


class Schedules(Versioned[answers.Schedule]):
    """Schedules of a namespace."""

    def enable(self, name: str, *, reason: str | None = None) -> answers.Schedule:
        """Let it work: it reacts to what comes from now on."""
        return read(self._shape, self._call("POST", name, ":enable", body=_said(reason=reason)))

    def disable(self, name: str, *, mode: str | None = None, reason: str | None = None) -> answers.Schedule:
        """Let it rest: waiting runs are dropped, running ones end by themselves."""
        return read(self._shape, self._call("POST", name, ":disable", body=_said(mode=mode, reason=reason)))

    def trigger(self, name: str, *, arguments: Document | None = None, key: str | None = None) -> answers.Run:
        """Ask for a run now. With the same `key` (of your own) asking again gives the same run, not another one."""
        body = _said(arguments=arguments)
        return read(answers.Run, self._call("POST", name, ":trigger", body=body, headers=_once(key)))

    def preview(self, name: str, *, count: int = 10, after: datetime | str | None = None) -> tuple[answers.Fire, ...]:
        """Its next fires, as if it were enabled."""
        return _all(answers.Fire, self._call("GET", name, "/preview", count=count, after=_instant(after)))

    def explain(self, name: str) -> answers.Explanation:
        """Why it has not run, and what would let it."""
        return read(answers.Explanation, self._call("GET", name, "/explain"))

    def stats(self, name: str) -> answers.Stats:
        """Totals, streaks, last start, finish and success, next start."""
        return read(answers.Stats, self._call("GET", name, "/stats"))

    def progress(self, name: str) -> answers.Progress:
        """What its trigger has collected, and what it lacks."""
        return read(answers.Progress, self._call("GET", name, "/progress"))

    def revisions(self, name: str) -> tuple[answers.Revision, ...]:
        """What it said, when, by whom; newest first."""
        return tuple(self._client._items(answers.Revision, self._at(name, "/revisions"), None))


class Applications(Kept[answers.Declared]):
    """Programs and schedules that are deployed together."""

    def deploy(
        self,
        app: App,
        *,
        update_schedules: bool | None = None,
        on_update: str | None = None,
        dry_run: bool | None = None,
    ) -> answers.Deployed:
        """Deploy it into its own namespace, all or nothing; what it had and has no more is deleted. Then its policies
        are written, all or none; one that it declares no more stays until somebody deletes it."""
        declared = app.application()
        policies = {"documents": app.policies()}
        if policies["documents"]:  # what is wrong with them is said before anything is written
            self._client.connection.call("POST", "/apply", body=policies, dry_run=True)
        path = f"/namespaces/{segment(declared.pop('namespace'))}/applications/{segment(declared.pop('name'))}"
        given: dict[str, Any] = {"update_schedules": update_schedules, "on_update": on_update, "dry_run": dry_run}
        deployed = read(answers.Deployed, self._client.connection.call("PUT", path, body=declared, **given))
        if policies["documents"] and not dry_run:
            self._client.connection.call("POST", "/apply", body=policies)
        return deployed


class Runs:
    """Runs: their ids are good in every namespace."""

    def __init__(self, client: Client, path: str) -> None:
        self._client, self._path = client, path

    def list(
        self,
        *,
        schedule: str | None = None,
        states: Iterable[str] = (),
        since: datetime | str | None = None,
        everywhere: bool = False,
        limit: int | None = None,
    ) -> Iterator[answers.Run]:
        """Runs, newest first; a stretch of missed fires is one item."""
        chosen = [states] if isinstance(states, str) else states
        given: dict[str, Any] = {"schedule": schedule, "state": ",".join(chosen) or None, "since": _instant(since)}
        return self._client._items(answers.Run, "/runs" if everywhere else self._path, limit, **given)

    def get(self, run: answers.Run | str) -> answers.Run:
        """As it is now."""
        return read(answers.Run, self._client.connection.get(_run(run)))

    def explain(self, run: answers.Run | str) -> answers.Explanation:
        """Why it has not started, or why it did and how it ended."""
        return read(answers.Explanation, self._client.connection.get(f"{_run(run)}/explain"))

    def cancel(self, run: answers.Run | str, *, reason: str | None = None) -> answers.Run:
        """Waiting: it ends at once. In flight: it is asked to end, then made to."""
        return read(answers.Run, self._client.connection.call("POST", f"{_run(run)}:cancel", body=_said(reason=reason)))

    def rerun(self, run: answers.Run | str, *, key: str | None = None) -> answers.Run:
        """A new run with the old one's inputs, arguments and fire time; for `key` see `Schedules.trigger`."""
        return read(
            answers.Run, self._client.connection.call("POST", f"{_run(run)}:rerun", body={}, headers=_once(key))
        )

    def logs(self, run: answers.Run | str, *, attempt: int | None = None) -> str:
        """What an attempt (the newest) has printed so far."""
        return "".join(one["text"] for one in log_pieces(self._client.connection, _run(run), attempt))

    def follow(self, run: answers.Run | str, *, attempt: int | None = None) -> Iterator[answers.LogPiece]:
        """What is printed, as it comes, over all attempts to come, until the run has ended."""
        pieces = log_pieces(self._client.connection, _run(run), attempt, follow=True)
        return (read(answers.LogPiece, one) for one in pieces if one["text"])

    def wait(self, run: answers.Run | str, *, timeout: float | None = None) -> answers.Run:
        """The run once it has ended, however it ended. Raises TimeoutError after `timeout` seconds; it goes on then."""
        begun = time.monotonic()
        while not (now := self.get(run)).ended:
            left = LOOK if timeout is None else timeout - (time.monotonic() - begun)
            if left <= 0:
                raise TimeoutError(f"run {now.id} is still {now.state} after {timeout:g} s")
            time.sleep(min(LOOK, left))
        return now


class Events:
    """The log of events."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def publish(self, *events: Event) -> tuple[records.Receipt, ...]:
        """Publish events, all or none; one whose id was published before changes nothing."""
        body = [{**one.document(), "key": self._key(one.type, one.key)} for one in events]
        return _all(records.Receipt, self._client.connection.call("POST", "/events", body=body))

    def list(
        self,
        *,
        type: str | None = None,
        key: str | None = None,
        since: datetime | str | None = None,
        limit: int | None = None,
    ) -> Iterator[records.LoggedEvent]:
        """What was published, and what happened to every run, in all namespaces; newest first."""
        whole = key if key is None or type is None else self._key(type, key)
        given: dict[str, Any] = {"type": type, "key": whole, "since": _instant(since)}
        return self._client._items(records.LoggedEvent, "/events", limit, **given)

    def subscribers(self, type: str, key: str) -> tuple[records.Subscriber, ...]:
        """Which schedules, and which leaf of their trigger, such an event reaches."""
        given = self._client.connection.get("/events/subscribers", type=type, key=self._key(type, key))
        return _all(records.Subscriber, given)

    def set_aside(self, *, everywhere: bool = False, limit: int | None = None) -> Iterator[records.SetAside]:
        """What schedules could not take, with the error; newest first."""
        given: dict[str, Any] = {"namespace": self._client._unless(everywhere)}
        return self._client._items(records.SetAside, "/events/set-aside", limit, **given)

    def replay(self, item: records.SetAside | str) -> records.SetAside:
        """Give what was set aside to its schedule again."""
        number = item if isinstance(item, str) else item.id
        path = f"/events/set-aside/{segment(number)}:replay"
        return read(records.SetAside, self._client.connection.call("POST", path, body={}))

    def _key(self, type: str, key: str) -> str:
        return qualified(type, key, self._client.namespace)


# ── from Python to REST ────────────────────────────────────────────────────────────────────────────────────────────


def _all(shape: type[S], given: Any) -> tuple[S, ...]:
    items: Sequence[Any] = given["items"]
    return tuple(read(shape, one) for one in items)


def _said(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _instant(given: datetime | str | None) -> str | None:
    return format_instant(from_datetime(given)) if isinstance(given, datetime) else given


def _if_match(revision: int | None) -> dict[str, str]:
    return {} if revision is None else {"If-Match": f'"{revision}"'}


def _once(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Idempotency-Key": key}


def _run(run: answers.Run | str) -> str:
    return f"/runs/{segment(run if isinstance(run, str) else run.id)}"
