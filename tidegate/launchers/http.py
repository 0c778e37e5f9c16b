"""Programs of kind `http`: a call of another system, made by a process of its own (`launchers.http_call`).

The call goes on while the worker is restarted, and its answer is not lost with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate.domain.programs import Http
from tidegate.domain.schedules import JsonObject
from tidegate.domain.variables import is_variable
from tidegate.launchers.children import ChildLauncher
from tidegate.launchers.process import CommandLine
from tidegate.ports.launching import Launch

SECRET = "TIDEGATE_HTTP_SECRET"
HEADER = "TIDEGATE_HTTP_HEADER_"


class HttpLauncher(ChildLauncher):
    """Programs of kind `http`."""

    kinds = frozenset({"http"})
    module = "tidegate.launchers.http_call"

    def order(self, launch: Launch) -> JsonObject:
        spec = launch.program.spec
        assert isinstance(spec, Http)
        parts: dict[str, Any] = {"url": spec.url, "headers": spec.headers, "body": spec.body}
        made = launch.filled(parts, "the call")
        return {**made, "method": spec.method, "success": list(spec.success), "signed": bool(spec.secret)}

    def command_line(self, launch: Launch, directory: Path) -> CommandLine:
        """Secrets travel by the environment, so that none is written down."""
        line = super().command_line(launch, directory)
        spec = launch.program.spec
        assert isinstance(spec, Http)
        by_name = [(name, str(text)) for name, text in spec.headers.items() if is_variable(text)]
        given = {f"{HEADER}{name}": self.secret(launch, f"The header {name}", text) for name, text in by_name}
        if spec.secret:
            given[SECRET] = self.secret(launch, "The secret", spec.secret)
        return CommandLine(line.path, line.argv, {**line.environment, **given})
