"""What people write in Python becomes the documents that YAML would hold."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate import (
    App,
    after_finish,
    at,
    between,
    blackout,
    concurrency,
    cron,
    delay,
    every,
    load,
    min_interval,
    never,
    rate,
)
from tidegate.documents import parse
from tidegate.domain import constraints
from tidegate.domain.errors import NotFound
from tidegate.domain.instants import HOUR, MINUTE
from tidegate.domain.schedules import Deadline, DeadlineFrom, ThenWaiting
from tidegate.domain.triggers import Weekday
from tidegate.domain.windows import Span
from tidegate.sdk.loading import CannotLoad, load_apps


def declare() -> App:
    app = App("orders", namespace="sales", timezone="Europe/Berlin")

    def load(run: Any, spark: Any, region: str, limit: int = 10) -> str:
        return f"{region}:{limit}"

    load.__qualname__ = "load"
    program = app.pyspark(load)
    app.schedule("load-eu", program.bind(region="eu"), when=cron("0 2 * * *"), catch_up="all", retry=3, timeout="PT2H")
    return app


@pytest.mark.requirement("OPS-3")
def test_a_declaration_in_python_is_the_document_that_yaml_would_hold() -> None:
    [program, schedule] = declare().documents()
    assert program["spec"]["type"] == "pyspark"
    assert program["spec"]["entry"].endswith(":load")
    assert schedule["metadata"] == {"namespace": "sales", "application": "orders", "name": "load-eu"}
    assert schedule["spec"] == {
        "program": "load",
        "arguments": {"region": "eu"},
        "trigger": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"},
        "catch_up": {"policy": "all"},
        "retry": {"max_attempts": 3},
        "timeout": {"run": "PT2H"},
    }


def test_a_trigger_that_names_its_zone_keeps_it_and_an_instant_has_none() -> None:
    assert cron("@daily", timezone="Asia/Tokyo").in_zone("Europe/Berlin")["timezone"] == "Asia/Tokyo"
    assert at("2026-03-29T00:00:00Z").in_zone("Europe/Berlin") == {"type": "at", "time": "2026-03-29T00:00:00Z"}
    assert after_finish("5m").in_zone("UTC") == {"type": "after_finish", "delay": "5m"}
    assert every("5s").in_zone("UTC") == {"type": "interval", "every": "5s", "timezone": "UTC"}
    assert never().in_zone("UTC") == {"type": "never"}


@pytest.mark.requirement("OPS-3")
def test_a_trigger_in_a_boolean_context_raises_instead_of_dropping_one() -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        cron("@daily") and every("1d")


@pytest.mark.requirement("OPS-3")
def test_programs_stay_callable_and_bind_refuses_what_the_function_does_not_take() -> None:
    program = declare().programs["load"]
    assert program(None, None, "eu", limit=3) == "eu:3"
    assert program.bind("eu", 5).arguments == {"region": "eu", "limit": 5}
    with pytest.raises(TypeError, match="no argument 'regoin'; did you mean 'region'"):
        program.bind(regoin="eu")
    with pytest.raises(TypeError, match="given twice"):
        program.bind("eu", region="eu")
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        program.bind(region={1, 2})


def test_one_name_is_declared_once() -> None:
    app = declare()
    with pytest.raises(ValueError, match="two schedules named 'load-eu'"):
        app.schedule("load-eu", app.programs["load"], when=never())
    with pytest.raises(ValueError, match="two programs named"):
        app.command("load", "true")


def test_a_function_that_no_worker_could_find_is_refused_when_it_is_deployed() -> None:
    app = App("x")
    app.python(lambda: None)
    with pytest.raises(ValueError, match="a worker can only find functions of a module"):
        app.application()


def test_constraints_are_values() -> None:
    assert concurrency(2, scope="program") == {"type": "concurrency", "max": 2, "scope": "program"}


@pytest.mark.requirement("OPS-3", "GATE-1", "GATE-3", "GATE-4", "GATE-5", "GATE-6", "GATE-7", "GATE-8", "GATE-9")
def test_every_constraint_says_in_python_what_it_says_in_yaml() -> None:
    app = App("x", timezone="Europe/Berlin")
    program = app.command("p", "true")
    only = [
        concurrency(3, scope="group:nightly"),
        delay(timedelta(minutes=5)),
        between("22:00", "06:00", days=["MON", "TUE"], stop_at_end=True),
        between("08:00", "09:00", timezone="UTC"),
        min_interval("1h", unmet="skip"),
        rate(100, per="1h", scope="program"),
        load("pool:spark", below=80),
        blackout("holidays"),
    ]
    deadline = {"start": "30m", "finish": "3h", "from": "arrival"}
    waiting = {"timeout": "1d", "then": "run"}
    app.schedule(
        "s", program, when=never(), only=only, groups=["nightly"], waiting=waiting, deadline=deadline, priority=70
    )
    [_, document] = app.documents()
    spec = parse(document).spec  # type: ignore[union-attr]
    days = (Weekday.MON, Weekday.TUE)
    night = Span(start=22 * 60, end=6 * 60, timezone="Europe/Berlin", days=days)
    assert spec.constraints == (
        constraints.Concurrency(max=3, scope="group:nightly"),
        constraints.Delay(duration=5 * MINUTE),
        constraints.Window(span=night, stop_at_end=True),
        constraints.Window(span=Span(start=8 * 60, end=9 * 60)),
        constraints.MinInterval(duration=HOUR, unmet=constraints.Unmet.SKIP),
        constraints.Rate(max=100, per=HOUR, scope="program"),
        constraints.Load(resource="pool:spark", below=80.0),
        constraints.Blackout(calendar="holidays"),
    )
    assert spec.groups == ("nightly",) and spec.priority == 70
    assert spec.waiting.then is ThenWaiting.RUN
    assert spec.deadline == Deadline(start=30 * MINUTE, finish=3 * HOUR, since=DeadlineFrom.ARRIVAL)


SOURCE = """
from tidegate import App, every
app = App("flows")
@app.python
def tick(run):
    return None
app.schedule("tick", tick, when=every("5s"), enabled=True)
"""


@pytest.mark.requirement("OPS-3")
def test_a_file_is_deployed_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "flows.py"
    file.write_text(SOURCE)
    [app] = load_apps(str(file))
    assert app.application()["programs"] == [
        {"metadata": {"name": "tick"}, "spec": {"type": "python", "entry": f"{file}:tick"}}
    ]


def test_what_cannot_be_loaded_says_where_and_why(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no file .*missing\.py"):
        load_apps(str(tmp_path / "missing.py"))
    with pytest.raises(NotFound, match="no module 'no_such_module_here'"):
        load_apps("no_such_module_here")
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    with pytest.raises(NotFound, match="declares no application"):
        load_apps(str(empty))
    broken = tmp_path / "broken.py"
    broken.write_text("x = 1\nraise RuntimeError('no database here')\n")
    with pytest.raises(CannotLoad, match=r"RuntimeError: no database here .*broken\.py:2"):
        load_apps(str(broken))


def test_a_fault_of_a_declaration_names_the_users_own_line(tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text(
        "from tidegate import App\n\napp = App('x')\napp.command('twice', 'true')\napp.command('twice', 'true')\n"
    )
    with pytest.raises(CannotLoad, match=r"declares two programs named 'twice' \(.*flow\.py:5\)"):
        load_apps(str(file))
