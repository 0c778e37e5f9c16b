"""From `package.module:function` or `path/file.py:function` to a call with a run's arguments.

Knows nothing of pools and processes. Every fault is a `ProgramFault` with a code that a person can look up.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import sysconfig
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARIES = tuple(
    {os.path.realpath(path) + os.sep for name, path in sysconfig.get_paths().items() if name.endswith("lib")}
    | {str(Path(__file__).resolve().parent.parent) + os.sep}
)
"""Below these nobody edits modules while a host runs."""


class ProgramFault(Exception):
    """The program cannot be called, or did not end well. `code` is the error's in the run's record."""

    def __init__(self, code: str, message: str, exit_status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.exit_status = exit_status


@dataclass(frozen=True, slots=True)
class Callee:
    """A function and what is known of its parameters. `run_parameter` is the one that takes the Run, if any."""

    function: Callable[..., Any]
    run_parameter: str | None
    required: frozenset[str]
    allowed: frozenset[str] | None
    """None: it takes any."""
    is_async: bool

    def check(self, entry: str, arguments: Mapping[str, Any]) -> None:
        """Raises ProgramFault `program.arguments` when these do not fit."""
        missing = self.required - arguments.keys()
        unknown = frozenset() if self.allowed is None else arguments.keys() - self.allowed
        if missing or unknown:
            faults = [f"it needs {name!r}, which is not given" for name in sorted(missing)]
            faults += [f"it has no parameter {name!r}" for name in sorted(unknown)]
            raise ProgramFault(
                "program.arguments",
                f"{entry} cannot be called with these arguments: {'; '.join(faults)}. "
                "Mend the arguments of program or schedule, or the function.",
            )


def resolve(entry: str) -> Callee:
    """Import the function. Raises ProgramFault `program.import`, with the fault of the import as its cause."""
    place, _, name = entry.rpartition(":")
    if not place:
        raise ProgramFault("program.import", f"{entry!r} names no function; write package.module:function.")
    importlib.invalidate_caches()
    try:
        module = _from_file(place) if place.endswith(".py") else importlib.import_module(place)
    except (Exception, SystemExit) as error:  # what a module raises at its top; a cancellation goes through
        raise ProgramFault(
            "program.import",
            f"Module {place} cannot be imported ({type(error).__name__}: {error}). Searched: {_search_path()}. "
            "Start the worker in the directory that holds it, install it in the worker's environment, or name it by "
            "path (path/file.py:function); the attempt's log has the traceback.",
        ) from error
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise ProgramFault(
            "program.import",
            f"Module {place} (from {getattr(module, '__file__', '?')}) has no function {name!r}. "
            "Check the name after the colon.",
        )
    return _examine(function)


def _examine(function: Callable[..., Any]) -> Callee:
    parameters = inspect.signature(function).parameters.values()
    keyword = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    run = next((p.name for p in keyword if p.name == "run" or _is_run(p.annotation)), None)
    names = frozenset(p.name for p in keyword if p.name != run)
    return Callee(
        function=function,
        run_parameter=run,
        required=frozenset(p.name for p in keyword if p.default is p.empty and p.name != run),
        allowed=None if any(p.kind is p.VAR_KEYWORD for p in parameters) else names,
        is_async=inspect.iscoroutinefunction(inspect.unwrap(function)),
    )


def _is_run(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] == "Run"
    return getattr(annotation, "__module__", "") == "tidegate.sdk.run" and annotation.__name__ == "Run"


def _from_file(place: str) -> ModuleType:
    path = os.path.realpath(place)
    name = f"{Path(path).stem}_{zlib.crc32(path.encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise ModuleNotFoundError(f"there is no file {path}")
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.append(folder)  # so that it can import its neighbours
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search_path() -> str:
    return ", ".join(path or "." for path in sys.path if not path.endswith(".zip"))


class Sources:
    """The files of the user's modules as they were when imported, to see when one has changed."""

    def __init__(self) -> None:
        self._seen = 0
        self._files: dict[str, tuple[int, int] | None] = {}

    def note(self) -> None:
        """Remember the files of modules that were imported since the last time."""
        if len(sys.modules) == self._seen:
            return
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file and file not in self._files and not os.path.realpath(file).startswith(LIBRARIES):
                self._files[file] = _stamp(file)
        self._seen = len(sys.modules)

    def changed(self) -> str | None:
        """A file that is not any more what was imported."""
        return next((file for file, stamp in self._files.items() if _stamp(file) != stamp), None)


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
