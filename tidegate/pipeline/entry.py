"""Finds and calls what a PySpark program names: a function of a module, a function of a file, or a file as a script."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidegate.domain.errors import TidegateError


class BadEntry(TidegateError):
    """The program cannot be found or imported, or does not take the run's arguments."""

    code = "program.import"


def load(entry: str) -> Callable[..., Any] | Path:
    """The function, or the path of the script. Raises BadEntry, naming what is missing."""
    place, _, name = entry.partition(":") if not entry.endswith(".py") else (entry, "", "")
    if place.endswith(".py"):
        path = Path(place).expanduser().resolve()
        if not path.is_file():
            raise BadEntry(f"There is no file {path}.", remedy="Relative paths are read from the worker's directory.")
        if not name:
            return path
        namespace = _module_of(path)
    else:
        namespace = _imported(place)
    function = getattr(namespace, name, None)
    if not callable(function):
        near = difflib.get_close_matches(name, dir(namespace), 1)
        raise BadEntry(f"{place} has no function {name!r}{f'; did you mean {near[0]!r}?' if near else '.'}")
    return function  # type: ignore[no-any-return]


def call(program: Callable[..., Any] | Path, *, run: Any, spark: Any, arguments: Mapping[str, Any]) -> None:
    """Run it to its end. `run` and `spark` are filled in, all other parameters are the run's arguments; a script sees
    both as globals. Raises what the program raises."""
    if isinstance(program, Path):
        sys.argv = [str(program)]
        sys.path.insert(0, str(program.parent))
        runpy.run_path(str(program), init_globals={"run": run, "spark": spark}, run_name="__main__")
        return
    program(**_bind(program, {"run": run, "spark": spark}, arguments))


def _bind(function: Callable[..., Any], given: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    unknown = [name for name in arguments if name not in parameters and not takes_all]
    missing = [
        name
        for name, one in parameters.items()
        if one.default is inspect.Parameter.empty
        and one.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        and name not in given
        and name not in arguments
    ]
    name = getattr(function, "__name__", "the program")
    if unknown or missing:
        faults = [f"does not take {', '.join(unknown)}"] * bool(unknown) + [f"lacks {', '.join(missing)}"] * bool(
            missing
        )
        raise BadEntry(
            f"{name} {' and '.join(faults)}.",
            remedy="Compare the schedule's arguments with its parameters.",
            code="program.arguments",
        )
    return {key: value for key, value in given.items() if key in parameters} | dict(arguments)


def _module_of(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
        from pyspark import cloudpickle

        # Spark's Python workers cannot import it: what it defines travels whole.
        cloudpickle.register_pickle_by_value(module)
    except Exception as fault:
        raise BadEntry(f"{path} cannot be imported: {type(fault).__name__}: {fault}") from fault
    return module


def _imported(name: str) -> Any:
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as fault:
        raise BadEntry(
            f"{name} cannot be imported: {type(fault).__name__}: {fault}",
            remedy="Put its folder on PYTHONPATH where the worker is started, or name a file that ends in .py.",
        ) from fault
