"""The only place that knows every concrete class: builds a role's parts from settings, and runs them.

A role registers an instance (whose session lock tells the others at once when it dies), runs its parts in the engine's
loop and leaves cleanly when it is asked to. Declared dead while it was away (frozen, cut off, the database gone), it
may write nothing any more under that registration: it lets go of everything and begins anew under another.
"""

from tidegate.store.embedded import EmbeddedServer
from tidegate.store.home import HomeLock
from tidegate.wiring.doors import open_doors
from tidegate.wiring.homes import embedded_server, running_server, schema_status, take_home, upgrade, without_password
from tidegate.wiring.scheduler import run_scheduler
from tidegate.wiring.worker import Leaving, run_worker

__all__ = [
    "EmbeddedServer",
    "HomeLock",
    "Leaving",
    "embedded_server",
    "open_doors",
    "run_scheduler",
    "run_worker",
    "running_server",
    "schema_status",
    "take_home",
    "upgrade",
    "without_password",
]
