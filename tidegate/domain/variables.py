"""Values that an environment variable keeps: `env:NAME`. Who reads one does it here, from the environment it has."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.domain.errors import Refused

_KIND = "env:"


def is_variable(value: object) -> bool:
    """Whether a value is `env:NAME`."""
    return isinstance(value, str) and value.startswith(_KIND)


def looked_up(value: str, environ: Mapping[str, str], what: str, who: str, *, empty: bool = True) -> str:
    """What `env:NAME` stands for in `environ`, the environment of `who`; any other text is itself.

    `what` and `who` are for the sentence: `The header X`, `the worker`. `empty`: whether an empty variable is a value.
    Raises Refused (`environment.missing`) for a variable that is not set.
    """
    if not is_variable(value):
        return value
    name = value.removeprefix(_KIND)
    found = environ.get(name)
    if found is None or not (found or empty):
        raise Refused(
            f"{what} is in {who}'s environment variable {name}, which is not set.",
            remedy=f"Set {name} where {who} is started and start it again.",
            code="environment.missing",
        )
    return found
