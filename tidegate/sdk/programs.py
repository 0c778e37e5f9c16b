"""Programs as people write them in Python: a decorated function stays a function, and can be bound to arguments."""

from __future__ import annotations

import difflib
import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from tidegate.sdk.triggers import When

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

GIVEN_BY_TIDEGATE = ("run", "spark")
"""Parameters that Tidegate fills in; all others are the program's arguments."""


@dataclass(frozen=True)
class Bound:
    """A program with arguments of its schedule."""

    program: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Program(Generic[P, R]):
    """A declared program. Calling it calls the function; `bind` gives it arguments for a schedule."""

    def __init__(self, name: str, document: Mapping[str, Any], function: Callable[..., R] | None = None) -> None:
        self.name = name
        self.document = dict(document)
        self.function = function
        if function is not None:
            functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Call the function itself, as in a unit test: Tidegate is not involved, `run` and `spark` are the caller's."""
        if self.function is None:
            raise TypeError(f"program {self.name!r} is not a Python function; only Tidegate can run it")
        return self.function(*args, **kwargs)

    # ── triggers by this program ───────────────────────────────────────────────────────────────────────────────────

    def ends(self, *outcomes: str, count: int | None = None) -> When:
        """Fire when runs of this program ended so (succeeded, failed, timed_out, cancelled, crashed, killed), or
        started; `count` of them together."""
        said = {"type": "program_status", "program": self.name, "outcomes": list(outcomes)}
        return When(said if count is None else {**said, "count": count})

    def started(self, *, count: int | None = None) -> When:
        """Fire when a run of this program starts."""
        return self.ends("started", count=count)

    def succeeded(self, *, count: int | None = None) -> When:
        """Fire when a run of this program succeeded."""
        return self.ends("succeeded", count=count)

    def failed(self, *, count: int | None = None) -> When:
        """Fire when a run of this program failed for good, after its retries."""
        return self.ends("failed", count=count)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound:
        """Fix arguments for a schedule. Type checkers see the function's own parameters, without `run` and `spark`.

        Raises TypeError for an argument that the function does not take, or that JSON cannot carry.
        """
        arguments = self._named(args, kwargs)
        for name, value in arguments.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as fault:
                raise TypeError(f"{self.name}: argument {name!r} cannot be written as JSON: {fault}") from None
        return Bound(self.name, arguments)

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self.function is None:
            if args:
                raise TypeError(
                    f"{self.name}: bind a program that is no Python function by name, e.g. bind(region='eu')"
                )
            return dict(kwargs)
        parameters = inspect.signature(self.function).parameters
        own = [name for name in parameters if name not in GIVEN_BY_TIDEGATE]
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            own += [name for name in kwargs if name not in own]
        if len(args) > len(own):
            raise TypeError(f"{self.name} takes {len(own)} arguments ({', '.join(own) or 'none'}), {len(args)} given")
        named = dict(zip(own, args, strict=False))
        for name, value in kwargs.items():
            if name not in own:
                near = difflib.get_close_matches(name, own, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(own) or 'none'}"
                raise TypeError(f"{self.name} takes no argument {name!r}{hint}")
            if name in named:
                raise TypeError(f"{self.name}: argument {name!r} is given twice")
            named[name] = value
        return named


def entry_of(function: Callable[..., Any], path: str | None) -> str:
    """Where a worker finds the function: `path.py:name` when it was loaded from a file, else `module:name`.

    Raises ValueError for a function that no other process could find (a lambda, one inside another function).
    """
    name = function.__qualname__
    if "<" in name or "." in name:
        raise ValueError(f"{name} is defined inside something else; a worker can only find functions of a module")
    return f"{path}:{name}" if path else f"{function.__module__}:{name}"
