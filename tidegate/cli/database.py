"""`tidegate db`: the schema of a database that is ours to upgrade."""

from __future__ import annotations

from pathlib import Path

import typer

from tidegate.cli import output
from tidegate.cli.options import Home
from tidegate.domain.errors import Refused

app = typer.Typer(help="The database's schema.", no_args_is_help=True)


@app.command()
def upgrade(home: Home = None) -> None:
    """Bring the schema of TIDEGATE_DATABASE_URL, or of a running `tidegate up`, to this version."""
    from tidegate import wiring

    steps = wiring.upgrade(database_url(home))
    for step in steps:
        output.say(f"applied {step}")
    if not steps:
        output.say("The schema is up to date.")


@app.command()
def status(home: Home = None) -> None:
    """Say which steps of the schema are applied; exit 1 while some are missing."""
    from tidegate import wiring

    found = wiring.schema_status(database_url(home))
    for name, applied in found:
        output.say(f"{'applied' if applied else 'missing'}  {name}")
    if not all(applied for _, applied in found):
        output.note("Bring it up to date: tidegate db upgrade")
        raise typer.Exit(1)


def database_url(home: Path | None) -> str:
    """The database that is configured, else the embedded one of a Tidegate that runs. Raises Refused."""
    from tidegate import settings as configuration
    from tidegate import wiring

    settings = configuration.load(home=home)
    url = settings.database.url or wiring.running_server(settings.home)
    if not url:
        raise Refused(
            f"There is no database to look at: the embedded one of {settings.home} does not run.",
            remedy="Set TIDEGATE_DATABASE_URL, or start `tidegate up`, which also upgrades the embedded one.",
        )
    return url
