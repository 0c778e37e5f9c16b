"""One tree of settings: file, environment, flags; nothing unknown is passed over."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.errors import Invalid, Refused
from tidegate.domain.instants import DAY, HOUR, SECOND
from tidegate.domain.maintenance.throttle import DEFAULT_RULING, Ruling, Throttles
from tidegate.ports.probing import PROBE_KEYS, ProbeSpec
from tidegate.settings import SECTIONS, load
from tidegate.settings.table import table

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_settings_is_the_table_of_the_code() -> None:
    assert (ROOT / "docs/reference/settings.md").read_text() == table()


def test_the_table_has_every_setting_with_its_meaning() -> None:
    rows = [line.split("|")[1:-1] for line in table().splitlines() if line.startswith("| ")][2:]
    told = {(section.strip(), key.strip()) for section, key, *_ in rows}
    keys = {(section, key) for section, model in SECTIONS.items() for key in model.model_fields}
    assert told == keys | {("probes.NAME", key) for key in PROBE_KEYS}
    assert all(meaning.strip() not in ("", "None") for *_, meaning in rows)


def test_the_module_prints_the_table() -> None:
    done = subprocess.run([sys.executable, "-m", "tidegate.settings"], capture_output=True, text=True, check=True)
    assert done.stdout == table()


def test_flags_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("[api]\nport = 1\nhost = '::1'\n[scheduler]\nbatch = 7\nresync = 'PT9S'\n")
    environ = {"TIDEGATE_API__PORT": "2", "TIDEGATE_SCHEDULER__BATCH": "8"}
    found = load(home=tmp_path, environ=environ, flags={"api": {"port": 3, "host": None}})
    assert (found.api.port, found.scheduler.batch, found.api.host) == (3, 8, "::1")
    assert found.scheduler.resync == 9 * SECOND


def test_the_short_name_of_the_database_wins(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("[database]\nurl = 'postgresql://file/x'\n")
    assert load(home=tmp_path, environ={"TIDEGATE_DATABASE_URL": "postgresql://e/x"}).database.url == (
        "postgresql://e/x"
    )


def test_the_home_is_the_flag_or_the_environment_or_the_users(tmp_path: Path) -> None:
    assert load(home=tmp_path, environ={"TIDEGATE_HOME": "/nowhere"}).home == tmp_path
    assert load(environ={"TIDEGATE_HOME": str(tmp_path)}).home == tmp_path
    assert load(environ={}).home == Path("~/.tidegate").expanduser()


@pytest.mark.parametrize(
    ("written", "environ", "path", "says"),
    [
        pytest.param("[api]\nprot = 1", {}, "api.prot", "did you mean 'port'", id="unknown_key_in_file"),
        pytest.param("[schedular]\nbatch = 1", {}, "schedular", "did you mean 'scheduler'", id="unknown_section"),
        pytest.param(
            "", {"TIDEGATE_API__PROT": "1"}, "api.prot", "did you mean 'port'", id="unknown_key_in_environment"
        ),
        pytest.param("", {"TIDEGATE_NOPE__PORT": "1"}, "nope", "known are", id="unknown_section_in_environment"),
        pytest.param("api = 3", {}, "api", "is a section", id="section_as_value"),
        pytest.param("[api]\nport = 'x'", {}, "api.port", "valid integer", id="wrong_type"),
        pytest.param("[api]\nport = 70000", {}, "api.port", "65535", id="out_of_range"),
        pytest.param("[scheduler]\nresync = 30", {}, "scheduler.resync", "with a unit", id="duration_without_unit"),
        pytest.param("[scheduler]\nresync = 'PT0S'", {}, "scheduler.resync", "greater than 0", id="no_duration"),
        pytest.param("[worker]\nkinds = ['sql']", {}, "worker.kinds", "spark_sql", id="unknown_kind"),
        pytest.param("[log]\nlevel = 'loud'", {}, "log.level", "debug", id="unknown_level"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(
    tmp_path: Path, written: str, environ: dict[str, str], path: str, says: str
) -> None:
    (tmp_path / "tidegate.toml").write_text(written)
    with pytest.raises(Invalid) as caught:
        load(home=tmp_path, environ=environ)
    assert [fault.path for fault in caught.value.faults] == [path]
    assert says in caught.value.faults[0].reason


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("[api]\nport = -1\n[log]\nlevel = 'x'\n[spark]\ndrivers = 0\n")
    with pytest.raises(Invalid) as caught:
        load(home=tmp_path, environ={})
    assert {fault.path for fault in caught.value.faults} == {"api.port", "log.level", "spark.drivers"}


def test_a_file_that_is_not_toml_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("[api\n")
    with pytest.raises(Refused, match=r"tidegate\.toml is not TOML"):
        load(home=tmp_path, environ={})


def test_lists_and_tables_can_be_written_in_the_environment(tmp_path: Path) -> None:
    environ = {"TIDEGATE_WORKER__KINDS": "python, command", "TIDEGATE_SPARK__CONF": "a.b=1, c=d=e"}
    found = load(home=tmp_path, environ=environ)
    assert found.worker.kinds == ("python", "command")
    assert found.spark.conf == {"a.b": "1", "c": "d=e"}


@given(st.sampled_from([(s, k) for s, m in SECTIONS.items() for k in m.model_fields]), st.data())
def test_any_misspelt_key_is_an_error_and_any_right_one_is_not(place: tuple[str, str], data: Any) -> None:
    section, key = place
    cut = data.draw(st.integers(0, len(key) - 1))
    wrong = key[:cut] + key[cut + 1 :]
    if wrong and wrong not in SECTIONS[section].model_fields:
        with pytest.raises(Invalid, match="there is no such setting"):
            load(home=Path("/nonexistent"), environ={f"TIDEGATE_{section.upper()}__{wrong.upper()}": "1"})


@pytest.mark.parametrize("url", ["nonsense", "postgresql://[::1", "host=x port"])
def test_an_address_of_no_database_is_a_fault_of_the_settings(tmp_path: Path, url: str) -> None:
    with pytest.raises(Invalid, match="write postgresql://USER@HOST/NAME"):
        load(home=tmp_path, environ={"TIDEGATE_DATABASE_URL": url})
    assert load(home=tmp_path, environ={"TIDEGATE_DATABASE_URL": "host=x dbname=y"}).database.url == "host=x dbname=y"


@pytest.mark.parametrize(
    "url", ["mysql://me:geheim@host/x", "geheim", "postgresql://me:geheim@[::1", "host=x password=geheim port"]
)
def test_a_fault_of_an_address_does_not_tell_the_password_in_it(tmp_path: Path, url: str) -> None:
    with pytest.raises(Invalid) as wrong:
        load(home=tmp_path, environ={"TIDEGATE_DATABASE_URL": url})
    assert "geheim" not in str(wrong.value)
    assert "write postgresql://USER@HOST/NAME; given was not shown here (environment)" in str(wrong.value)


def test_probes_are_read_from_file_and_environment(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(
        '[probes.cores]\ntype = "spark"\nmaster = "http://m:8080"\nevery = "30s"\n'
        '[probes.queue]\ntype = "command"\nargv = ["queue-length", "--all"]\n'
    )
    found = load(home=tmp_path, environ={"TIDEGATE_PROBES__LAG": '{"type": "http", "url": "http://x", "value": "/a"}'})
    assert found.probes == {
        "cores": ProbeSpec(type="spark", master="http://m:8080", every=30 * SECOND),
        "queue": ProbeSpec(type="command", argv=("queue-length", "--all")),
        "lag": ProbeSpec(type="http", url="http://x", value="/a"),
    }


@pytest.mark.requirement("GATE-15")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("[probes]\ncores = 1", "'cores' must be a table"),
        ("[probes.a]\nurl = 'http://x'", "the `type` of a must be one of http, command, spark"),
        ("[probes.a]\ntype = 'http'", "a lacks `url`, which a probe of type http needs"),
        ("[probes.a]\ntype = 'http'\nurl = 'x'", "needs an address http://"),
        ("[probes.a]\ntype = 'http'\nurl = 'http://[x'", "needs an address http://"),
        ("[probes.a]\ntype = 'http'\nurl = 'http://x'\nvalue = 'free'", "needs a JSON pointer such as /cores/free"),
        ("[probes.a]\ntype = 'command'\nargv = ['x']\nurl = 'http://x'", "of type command, which has no `url`"),
        ("[probes.a]\ntype = 'command'\nargv = 'x y'", "needs a list of texts as `argv`"),
        ("[probes.a]\ntype = 'command'\nargv = ['x']\nevery = '1ms'", "every of a: must lie between a second and"),
        ("[probes.a]\ntype = 'spark'\nmaster = 'http://x'\ntimeout = 5", "timeout of a: 5 is not a duration"),
        ("[probes.a]\ntype = 'spark'\nmaster = 'http://x'\nmastre = 5", "a knows no 'mastre'"),
    ],
)
def test_a_probe_that_cannot_work_is_refused(tmp_path: Path, said: str, reason: str) -> None:
    (tmp_path / "tidegate.toml").write_text(said)
    with pytest.raises(Invalid, match=reason):
        load(home=tmp_path, environ={})


@pytest.mark.requirement("CARE-4", "FAIL-7")
def test_what_settings_say_of_maintenance_is_what_is_decided_by(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(
        '[maintenance]\nconditions = false\nmin_interval = "2h"\nfailures = 0\nreduction = 75\nunchanged_wait = "P1D"\n'
    )
    found = load(home=tmp_path, environ={}).maintenance.ruling
    expected = Throttles(failures=0, reduction=75, unchanged_wait=DAY, min_interval=2 * HOUR)
    assert found == Ruling(conditions=False, throttles=expected)
    (tmp_path / "tidegate.toml").unlink()
    assert load(home=tmp_path, environ={}).maintenance.ruling == DEFAULT_RULING


@pytest.mark.requirement("HA-2")
@pytest.mark.parametrize(
    "given", [{"heartbeat": "PT10S", "patience": "PT1S"}, {"patience": "PT1S"}, {"heartbeat": "PT3S"}]
)
def test_who_would_be_declared_dead_between_two_heartbeats_is_told_so(tmp_path: Path, given: dict[str, str]) -> None:
    lines = "".join(f'{name} = "{value}"\n' for name, value in given.items())
    (tmp_path / "tidegate.toml").write_text(f"[scheduler]\n{lines}")
    with pytest.raises(Invalid, match=r"scheduler: patience must be at least 2 times heartbeat, so "):
        load(home=tmp_path, environ={})
