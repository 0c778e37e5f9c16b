"""`tidegate`: every command, and the one place where an error becomes a message.

Exit status: 0 done, 1 refused or failed, 2 wrong usage. Nothing shows a stack trace, except what nobody foresaw when
TIDEGATE_DEBUG is set.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from tidegate.cli import (
    act,
    backfills,
    database,
    declare,
    events,
    history,
    importing,
    look,
    output,
    policies,
    reason,
    roles,
    sinks,
    tables,
)
from tidegate.cli.output import Form
from tidegate.cli.up import up
from tidegate.domain.errors import TidegateError

CONTROL_FLOW: tuple[type[Exception], ...] = (
    TyperException,
    typer.Exit,
    typer.Abort,
)  # typer's own way to end a command


class Commands(TyperGroup):
    """Turns errors into messages."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for text in args:
            try:
                text.encode()
            except UnicodeEncodeError:
                raise typer.BadParameter(f"{ascii(text)} is not UTF-8 text.", ctx=ctx) from None
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            raise _plainly(error) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TidegateError as error:
            output.fail(error)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more
            raise typer.Exit(1) from None
        except TyperException as error:
            raise _plainly(error) from None
        except CONTROL_FLOW:
            raise
        except Exception as error:
            if os.environ.get("TIDEGATE_DEBUG"):
                raise
            output.fail(
                TidegateError(
                    f"Something nobody foresaw: {type(error).__name__}: {error}.",
                    remedy="TIDEGATE_DEBUG=1 shows where; please report it.",
                )
            )


def _plainly(error: TyperException) -> TyperException:
    """Its message without the name of the exception that typer puts before a wrong choice."""
    error.message = error.message.removeprefix("Value error, ")
    return error


app = typer.Typer(
    cls=Commands,
    help="Tidegate: a data-aware scheduler for Spark lakehouses.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        output.say(f"tidegate {version('tidegate')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="The same before the command.", show_default=False)
    ] = None,
    form: Annotated[
        Form | None, typer.Option("-o", "--output", help="The same before the command.", show_default=False)
    ] = None,
) -> None:
    """Tidegate: a data-aware scheduler for Spark lakehouses."""
    given = {name: value for name, value in {"namespace": namespace, "form": form}.items() if value is not None}
    if given and context.invoked_subcommand:
        inner = dict.fromkeys(_names(context.invoked_subcommand), given)
        context.default_map = {context.invoked_subcommand: {**given, **inner}}


def _names(group: str) -> list[str]:
    """The commands below a command such as `events`; none below most."""
    found = typer.main.get_command(app).get_command(None, group)  # type: ignore[attr-defined]
    return list(getattr(found, "commands", ()))


def _add(panel: str, **commands: Any) -> None:
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)


_add("Run it", up=up, scheduler=roles.scheduler, worker=roles.worker, api=roles.api)
app.add_typer(database.app, name="db", rich_help_panel="Run it")
_add("Declare", apply=declare.apply, diff=declare.diff, deploy=declare.deploy, delete=act.delete)
app.command("import", rich_help_panel="Declare")(importing.import_)
_add("Declare", enable=act.enable, disable=act.disable, freeze=act.freeze, unfreeze=act.unfreeze)
_add("Look", get=look.get, describe=look.describe, preview=reason.preview, explain=reason.explain)
_add("Look", runs=look.runs, logs=act.logs, queue=look.queue, audit=reason.audit)
app.add_typer(backfills.app, name="backfill", rich_help_panel="Act")
app.add_typer(tables.app, name="tables", rich_help_panel="Look")
app.add_typer(history.app, name="history", rich_help_panel="Look")
app.add_typer(policies.app, name="policies", rich_help_panel="Act")
app.add_typer(events.app, name="events", rich_help_panel="Act")
app.add_typer(sinks.app, name="sinks", rich_help_panel="Act")
_add("Act", trigger=act.trigger, cancel=act.cancel, rerun=act.rerun)


def main() -> None:
    """The `tidegate` command."""
    app(prog_name="tidegate")


if __name__ == "__main__":
    main()
