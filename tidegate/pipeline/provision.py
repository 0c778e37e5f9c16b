"""Gets the jars that Spark needs beside its own: Iceberg's runtime and PostgreSQL's JDBC driver.

They are named by coordinates and by sha256 and resolved by the Ivy that PySpark ships, which knows where the public
repository is, so that no host stands here. What is there with the right hash is used as it is, also when a person
put it there. Two processes may do this at once: one works, the other waits; a jar appears whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tidegate.domain.errors import Refused, Unavailable
from tidegate.pipeline.java import Java, find_java
from tidegate.pipeline.trust import PASSWORD, system_trust_store
from tidegate.ports.spark import SparkSettings

Progress = Callable[[str], None]
"""Is told, in one line for a person, what is happening."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar by its coordinates and the hash of its bytes."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def filename(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


JARS = (
    Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.12.0",
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
    Jar(
        "org.postgresql",
        "postgresql",
        "42.7.14",
        "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
    ),
)


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What a session needs from outside Python."""

    java: Java
    jars: tuple[Path, ...]


def provision(
    home: Path, settings: SparkSettings, *, progress: Progress = lambda line: None, jars: Sequence[Jar] = JARS
) -> Provisioned:
    """Java and jars, downloaded where missing. Raises Refused (wrong Java, wrong hash) or Unavailable (no network)."""
    java = find_java(home, java_home=settings.java_home)
    folder = Path(settings.jars_dir) if settings.jars_dir else home / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    if not all(_is_right(folder, jar) for jar in jars):
        with _alone(folder, progress):
            missing = [jar for jar in jars if not _is_right(folder, jar)]
            _fetch(missing, folder, java=java, settings=settings, progress=progress)
    return Provisioned(java, tuple(folder / jar.filename for jar in jars))


def _is_right(folder: Path, jar: Jar) -> bool:
    """Whether the jar is there. Raises Refused when a file of its name is there with other bytes."""
    path = folder / jar.filename
    try:
        found = _sha256(path)
    except FileNotFoundError:
        return False
    if found != jar.sha256:
        raise Refused(
            f"{path} is not {jar}: its sha256 is {found}, it should be {jar.sha256}.",
            remedy="Remove the file, so that it is fetched again, or put the right one in its place.",
            code="spark.jar_hash",
        )
    return True


def _fetch(jars: Sequence[Jar], folder: Path, *, java: Java, settings: SparkSettings, progress: Progress) -> None:
    if not jars:
        return
    if settings.trust_store and not Path(settings.trust_store).is_file():
        raise Refused(f"spark.trust_store names {settings.trust_store}, which is not a file.", code="spark.trust_store")
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as work:
        trusts = list(_trust_options(settings, Path(work)))
        for number, jar in enumerate(jars, 1):
            progress(f"fetching {jar} ({number} of {len(jars)})")
            fetched = _resolve(jar, Path(work), java=java, settings=settings, trusts=trusts)
            found = _sha256(fetched)
            if found != jar.sha256:
                raise Refused(
                    f"What the repository gave for {jar} has sha256 {found}; it should be {jar.sha256}.",
                    remedy="Do not use it. A proxy or mirror may have changed it: see spark.ivy_settings, "
                    f"or put the right file at {folder / jar.filename}.",
                    code="spark.jar_hash",
                )
            fetched.replace(folder / jar.filename)
            progress(f"{jar.filename}: {(folder / jar.filename).stat().st_size / 1e6:.1f} MB, sha256 as it should be")


def _resolve(jar: Jar, work: Path, *, java: Java, settings: SparkSettings, trusts: Sequence[list[str]]) -> Path:
    """Ask Ivy; with the system's authorities first, then with Java's own."""
    target = work / jar.filename
    said = ""
    for trust in trusts:
        command = [
            str(java.binary),
            *trust,
            *_proxy_options(os.environ),
            *("-jar", str(ivy_jar())),
            *("-settings", settings.ivy_settings) * bool(settings.ivy_settings),
            *("-cache", str(work / "ivy"), "-types", "jar", "-notransitive", "-warn"),
            *("-dependency", jar.group, jar.artifact, jar.version),
            *("-retrieve", str(work / "[artifact]-[revision].[ext]")),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            said += "no answer within 10 minutes"
            break
        if target.is_file():
            return target
        said += done.stdout + done.stderr
    raise _why_not(jar, said, settings)


def _why_not(jar: Jar, said: str, settings: SparkSettings) -> Exception:
    folder = settings.jars_dir or "HOME/jars"
    by_hand = f"or put {jar.filename} into {folder} by hand"
    if "PKIX" in said or "SSLHandshake" in said or "certificate" in said.lower():
        return Refused(
            f"{jar} could not be fetched: Java does not trust the repository's certificate.",
            remedy="Behind a company proxy name a trust store that holds its authority by the setting "
            f"spark.trust_store (and spark.trust_store_password), {by_hand}.",
            code="spark.jar_trust",
        )
    lines = [line.strip() for line in said.splitlines() if "WARN" in line or "ERROR" in line or "Exception" in line]
    detail = " ".join(lines[:4]) or said.strip()[-300:] or "no output"
    return Unavailable(
        f"{jar} could not be fetched: {detail}.",
        remedy="Check the network (HTTPS_PROXY is followed), name a mirror by the setting spark.ivy_settings, "
        f"{by_hand} (sha256 {jar.sha256}).",
        code="spark.jar_missing",
    )


def ivy_jar() -> Path:
    """The Ivy inside PySpark. Raises Refused when PySpark is not a full one."""
    spec = importlib.util.find_spec("pyspark")
    root = Path(spec.origin).parent if spec and spec.origin else Path()
    for found in sorted(root.glob("jars/ivy-*.jar")):
        return found
    raise Refused(
        "PySpark has no Ivy in its jars folder.",
        remedy="Install the full package pyspark[connect], not pyspark-client or pyspark-connect.",
        code="spark.pyspark",
    )


def _trust_options(settings: SparkSettings, work: Path) -> Iterator[list[str]]:
    if settings.trust_store:
        yield _trusting(work / "options", Path(settings.trust_store), settings.trust_store_password)
        return
    if made := system_trust_store(work / "system-ca.jks"):
        yield _trusting(work / "options", made, PASSWORD)
    yield []


def _trusting(file: Path, store: Path, password: str) -> list[str]:
    write_options(file, [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={password}"])
    return [f"@{file}"]


def write_options(file: Path, options: Sequence[str]) -> None:
    """A new file of options for `java @FILE`, mode 0600: whoever is on the machine can read a command line, and Java
    itself prints what it finds in its environment."""
    quoted = (option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for option in options)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.writelines(f'"{option}"\n' for option in quoted)


def _proxy_options(env: Mapping[str, str]) -> list[str]:
    """The proxy that the environment names, as Java wants to be told it."""
    options = []
    for scheme in ("http", "https"):
        proxy = env.get(f"{scheme}_proxy") or env.get(f"{scheme.upper()}_PROXY")
        parts = urlsplit(proxy if "//" in proxy else f"//{proxy}") if proxy else None
        if parts and parts.hostname:
            options += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={parts.port or 80}"]
    return options


@contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            progress("another process is fetching the jars; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        # What a killed process left unfinished is nobody's now that the lock is ours.
        for stale in folder.glob(".fetching-*"):
            shutil.rmtree(stale, ignore_errors=True)
        yield


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
