"""The Program document's spec, one model per `type`; `program_of` gives the domain's value."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias, assert_never, get_args

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from tidegate.documents.base import Document
from tidegate.documents.scalars import JsonMap, Name, choice, wrong
from tidegate.domain import events, programs, templates
from tidegate.domain.addresses import http_fault
from tidegate.domain.jsonable import say
from tidegate.domain.programs import DeployMode, Isolation

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_CREDENTIALS = re.compile(r"https?://[^/?#]*@")
_OURS = frozenset(
    {"idempotency-key", "content-length", "transfer-encoding", "connection", "host", "te", "upgrade", "trailer"}
)
"""Headers that say which run it is, and those of the transport."""
_SECRET_HEADER = re.compile(r"authorization|cookie|token|secret|password|api-?key", re.IGNORECASE)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_STATUS_CLASS = re.compile(r"[1-5]xx")
HISTORY_URL = "TIDEGATE_HISTORY_URL"
"""Where a program that reads history finds it: the one name of ours that is for people to set."""
Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def _statuses(value: object) -> object:
    """Numbers from 100 to 599, or classes."""
    found = value if isinstance(value, list) else [value]
    if not found:
        raise wrong("must name at least one status, e.g. [200] or [2xx]")
    for one in found:
        number = isinstance(one, int) and not isinstance(one, bool) and 100 <= one < 600
        if not number and not (isinstance(one, str) and _STATUS_CLASS.fullmatch(one)):
            raise wrong(f"must be statuses such as 200, or classes such as 2xx, not {say(one)}")
    return found


def _environment(value: object) -> object:
    if isinstance(value, dict):
        for name, text in value.items():
            if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
                raise wrong(f"{name!r} is not the name of an environment variable")
            if name.startswith("TIDEGATE_") and name != HISTORY_URL:
                raise wrong(f"{name!r} cannot be set: names that begin with TIDEGATE_ are given by Tidegate")
            if not isinstance(text, str):
                raise wrong(f"the value of {name!r} must be text, not {say(text)}; put it in quotes")
    return value


class Common(Document):
    """What every program takes."""

    pool: Name | None = Field(
        default=None, description="whose slots it takes; left out: that of its type, else `default`"
    )
    groups: list[Name] = Field(default_factory=list, description="what group limits count")
    arguments: JsonMap = Field(default_factory=dict, description="arguments of every run; its schedule's go over them")

    def common(self) -> dict[str, Any]:
        return {"pool": self.pool, "groups": tuple(self.groups), "arguments": self.arguments}


class Process(Common):
    """What every program takes that is a process."""

    environment: Annotated[JsonMap, BeforeValidator(_environment)] = Field(
        default_factory=dict, description="environment variables; `env:NAME` is read from the worker's own"
    )

    def common(self) -> dict[str, Any]:
        return {**super().common(), "environment": self.environment}


class Spark(Process):
    """What every Spark program takes."""

    conf: JsonMap = Field(default_factory=dict, description="Spark settings of its session")
    isolation: Annotated[Literal["shared", "process"], choice("an isolation", Isolation)] = Field(
        default="shared",
        description="shared: in a warm driver; process: a driver of its own (SparkContext, RDDs, CALL)",
    )

    @field_validator("conf")
    @classmethod
    def _settings(cls, conf: dict[str, Any]) -> dict[str, Any]:
        return _spark_settings(conf)


def _spark_settings(conf: dict[str, Any]) -> dict[str, Any]:
    for key, value in conf.items():
        if isinstance(value, dict | list) or value is None:
            raise wrong(f"the value of {key!r} must be text, a number, true or false, not {say(value)}")
    return conf


class PySpark(Spark):
    """A PySpark function or file."""

    type: Literal["pyspark"]
    entry: str = Field(description='"package.module:function", "path/file.py:function" or "path/file.py"')
    remote: str | None = Field(
        default=None,
        description="a Spark Connect server of one's own instead: `sc://HOST:PORT`; with a token in it, `env:NAME`",
    )

    @field_validator("remote")
    @classmethod
    def _server(cls, remote: str | None) -> str | None:
        if remote is None:
            return remote
        if "token=" in remote:
            raise wrong("holds a token: put the whole address into a variable of the worker and write env:NAME")
        if not remote.startswith("sc://") and not _REFERENCE.fullmatch(remote):
            raise wrong(f"{remote!r} is no Spark Connect server; write sc://HOST:PORT, or env:NAME that holds it")
        return remote

    @model_validator(mode="after")
    def _one_place(self) -> PySpark:
        if self.remote is not None and self.isolation == "process":
            raise wrong("runs at a remote server or in a process of its own: leave out `remote` or `isolation`")
        return self

    @field_validator("entry")
    @classmethod
    def _found(cls, entry: str) -> str:
        if entry.endswith(".py") and not entry.isspace():
            return entry
        return _function(entry, 'or "path/file.py"')


class SparkSql(Spark):
    """Spark SQL statements."""

    type: Literal["spark_sql"]
    sql: str = Field(description="statements separated by `;`; {name} is replaced by an argument, as a literal")

    @field_validator("sql")
    @classmethod
    def _says_something(cls, sql: str) -> str:
        if not sql.replace(";", "").strip():
            raise wrong("must not be empty: write one or more SQL statements, separated by `;`")
        return sql


class Python(Process):
    """A Python function in a pooled process, without Spark."""

    type: Literal["python"]
    entry: str = Field(description='"package.module:function" or "path/file.py:function"')

    @field_validator("entry")
    @classmethod
    def _found(cls, entry: str) -> str:
        return _function(entry, "")


class Command(Process):
    """A process, found on PATH; nothing is given to a shell."""

    type: Literal["command"]
    argv: list[str] = Field(description='the command and its arguments, e.g. ["bash", "load.sh"]', min_length=1)

    @field_validator("argv")
    @classmethod
    def _names_a_command(cls, argv: list[str]) -> list[str]:
        if not argv[0].strip():
            raise wrong("must begin with the command to run, not with empty text")
        return argv


class SparkSubmit(Process):
    """An application on a cluster, started by `spark-submit`: local, standalone, YARN or Kubernetes."""

    type: Literal["spark_submit"]
    application: str = Field(description="a .py file or a .jar, by path or by an address that the cluster can read")
    master: str | None = Field(
        default=None, description="`spark://HOST:PORT`, `yarn`, `k8s://...` or `local[*]`; left out: `spark.master`"
    )
    deploy_mode: Annotated[Literal["client", "cluster"], choice("a deploy mode", DeployMode)] = Field(
        default="client", description="client: the driver runs on the worker's machine; cluster: in the cluster"
    )
    main_class: str | None = Field(default=None, description="of a .jar: the class whose `main` is run")
    conf: JsonMap = Field(default_factory=dict, description="Spark settings; `env:NAME` is read from the worker's own")
    args: list[str] = Field(default_factory=list, description="arguments of the application; may hold templates")

    @field_validator("conf")
    @classmethod
    def _settings(cls, conf: dict[str, Any]) -> dict[str, Any]:
        return _spark_settings(conf)

    @field_validator("args")
    @classmethod
    def _filled_in(cls, args: list[str]) -> list[str]:
        return list(_templated(args, "args"))

    @model_validator(mode="after")
    def _can_be_submitted(self) -> SparkSubmit:
        if self.application.endswith(".jar") and self.main_class is None:
            raise wrong("an application that is a .jar needs `main_class`")
        on_standalone = (self.master or "").startswith("spark://")
        if self.application.endswith(".py") and self.deploy_mode == "cluster" and on_standalone:
            raise wrong("a standalone cluster runs a .py application in deploy_mode client only")
        return self


def _ok() -> list[int | str]:
    return ["2xx"]


class Http(Common):
    """A call of another system. Each request names the attempt (`Idempotency-Key`) and the run (`Tidegate-Run-Key`);
    an answer of 202 with a `Location` is asked again there until the work has ended. Headers and signature go to the
    origin (scheme, host, port) of `url` only: a `Location` elsewhere is asked without them."""

    type: Literal["http"]
    url: str = Field(description="`http://` or `https://` address; may hold templates")
    method: Annotated[Method, choice("a method", get_args(Method))] = Field(
        default="POST", description="how it is asked"
    )
    headers: JsonMap = Field(
        default_factory=dict, description="further headers; text, may hold templates; `env:NAME` is the worker's own"
    )
    body: Any = Field(
        default=None, description="JSON, or text as it is; may hold templates; left out: the run, where a body may be"
    )
    success: Annotated[list[int | str], BeforeValidator(_statuses)] = Field(
        default_factory=_ok, description="statuses of success, or classes of them"
    )
    secret: str | None = Field(
        default=None, description="`env:NAME`: each request is signed with it, as Standard Webhooks says"
    )

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        _templated(url, "url")
        fixed = url.split("{{")[0]
        if not url.startswith(("http://", "https://", "{{")) or any(char.isspace() for char in fixed):
            raise wrong(f"{url!r} is not an address; write it like https://example.org/refresh")
        if _CREDENTIALS.match(url):
            raise wrong("must hold no user and password; put them into a header `Authorization: env:NAME`")
        if (fixed == url or "/" in fixed.partition("//")[2]) and (reason := http_fault(fixed)):  # its host is known
            raise wrong(reason)
        return url

    @field_validator("headers")
    @classmethod
    def _named_text(cls, headers: dict[str, Any]) -> dict[str, Any]:
        for name, text in headers.items():
            if not _HEADER.fullmatch(name):
                raise wrong(f"{name!r} is not the name of a header")
            if name.lower() in _OURS or name.lower().startswith(("tidegate-", "webhook-")):
                raise wrong(f"{name!r} is set by Tidegate: leave it out")
            if not isinstance(text, str) or "\n" in text or "\r" in text:
                raise wrong(f"the value of {name!r} must be one line of text, not {say(text)}; put it in quotes")
            if not text.isascii():
                raise wrong(f"the value of {name!r} must be ASCII, as headers are")
            if _SECRET_HEADER.search(name) and not _REFERENCE.fullmatch(text):
                raise wrong(f"{name!r} holds a secret: write env:NAME, a variable of the worker's environment")
        return dict(_templated(headers, "headers"))

    @field_validator("body")
    @classmethod
    def _filled_in(cls, body: Any) -> Any:
        return _templated(body, "body")

    @field_validator("secret")
    @classmethod
    def _by_reference(cls, secret: str | None) -> str | None:
        if secret is not None and not _REFERENCE.fullmatch(secret):
            raise wrong("must be env:NAME, a variable of the worker's environment: a secret is never written down")
        return secret


class Publish(Common):
    """An event, published in the transaction that begins and ends the run; nothing is started."""

    type: Literal["publish"]
    event: str = Field(description="type of the event: user.NAME, or dataset.updated of a dataset that nobody watches")
    key: str = Field(description="what it is about: a name or namespace/name, or the dataset's; may hold templates")
    payload: JsonMap = Field(default_factory=dict, description="what is to be known about it; may hold templates")

    @field_validator("event")
    @classmethod
    def _may_be_published(cls, event: str) -> str:
        if reason := events.publish_fault(event):
            raise wrong(reason)
        return event

    @field_validator("key", "payload")
    @classmethod
    def _can_be_published(cls, value: Any, info: ValidationInfo) -> Any:
        """What holds templates is looked at again when it is filled in."""
        at = str(info.field_name)
        _templated(value, at)
        if "event" in info.data and next(templates.templates(value), None) is None:
            event = info.data["event"]
            key = events.qualified(event, value if at == "key" else "a", "b")
            payload = value if at == "payload" else {}
            if found := [one for one in events.faults(event, key, payload, None, 0) if one.path.startswith(at)]:
                told = "; ".join(f"{one.path.removeprefix(at).strip('.')} {one.reason}".strip() for one in found)
                # As it was given: the namespace is the program's, which is not known here.
                raise wrong(told.replace(repr(key), repr(value)) if at == "key" else told)
        return value


Program: TypeAlias = Annotated[
    PySpark | SparkSql | Python | Command | SparkSubmit | Http | Publish, Field(discriminator="type")
]


def program_of(document: PySpark | SparkSql | Python | Command | SparkSubmit | Http | Publish) -> programs.ProgramSpec:
    """The domain's value of a program document."""
    match document:
        case PySpark():
            return programs.PySpark(
                entry=document.entry,
                conf=document.conf,
                isolation=Isolation(document.isolation),
                remote=document.remote,
                **document.common(),
            )
        case SparkSql():
            return programs.SparkSql(
                sql=document.sql, conf=document.conf, isolation=Isolation(document.isolation), **document.common()
            )
        case Python():
            return programs.Python(entry=document.entry, **document.common())
        case Command():
            return programs.Command(argv=tuple(document.argv), **document.common())
        case SparkSubmit():
            return programs.SparkSubmit(
                application=document.application,
                master=document.master,
                deploy_mode=DeployMode(document.deploy_mode),
                main_class=document.main_class,
                conf=document.conf,
                args=tuple(document.args),
                **document.common(),
            )
        case Http():
            return programs.Http(
                url=document.url,
                method=document.method,
                headers=document.headers,
                body=document.body,
                success=tuple(document.success),
                secret=document.secret,
                **document.common(),
            )
        case Publish():
            return programs.Publish(
                event=document.event, key=document.key, payload=document.payload, **document.common()
            )
        case _:
            assert_never(document)


def _templated(value: Any, at: str) -> Any:
    """A value of a program whose templates can be read."""
    if found := templates.program_faults(value, at):
        raise wrong("; ".join(one.reason if one.path == at else f"{one.path}: {one.reason}" for one in found))
    return value


def _function(entry: str, beside: str) -> str:
    path, colon, name = entry.rpartition(":")
    if colon and name.isidentifier() and (path.endswith(".py") or _is_module(path)):
        return entry
    also = f", {beside}" if beside else ""
    raise wrong(f'{entry!r} names no function; write "package.module:function", "path/file.py:function"{also}')


def _is_module(path: str) -> bool:
    return all(part.isidentifier() for part in path.split("."))
