"""Finding the `App` objects of a file or module that somebody wants to deploy."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from tidegate.domain.errors import NotFound, TidegateError
from tidegate.sdk.app import App


class CannotLoad(TidegateError):
    """The file or module raised while it was imported; nothing of it was deployed."""

    code = "deploy.import"


def load_apps(target: str) -> list[App]:
    """The applications that a file (`flows/etl.py`) or a module (`company.etl`) declares, in order of name.

    A file's functions are deployed by its absolute path, so that workers on this machine find them; a module's by its
    dotted name. As when Python runs a file, its folder is on the path, so that it can import its neighbours.
    Raises NotFound when there is no such file, module or App in it, CannotLoad when importing it fails.
    """
    if target.endswith((".yaml", ".yml")):
        raise NotFound(
            f"{target!r} is a file of documents, not Python.", remedy=f"For those: tidegate apply -f {target}"
        )
    module = _from_file(Path(target)) if target.endswith(".py") else _from_name(target)
    apps = {id(value): value for value in vars(module).values() if isinstance(value, App)}
    if not apps:
        raise NotFound(f"{target} declares no application.", remedy="Assign one at module level: app = App('name').")
    return sorted(apps.values(), key=lambda app: (app.namespace, app.name))


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise NotFound(f"there is no file {path}.")
    name = f"tidegate_deployed_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__tidegate_path__"] = str(path)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        raise _cannot(str(path), fault) from fault
    return module


def _from_name(name: str) -> ModuleType:
    try:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(name)
    except (ModuleNotFoundError, ValueError):
        raise NotFound(
            f"there is no module {name!r} on the path.",
            remedy="Name a file that ends in .py, or put the module's folder on PYTHONPATH.",
        ) from None
    try:
        return importlib.import_module(name)
    except Exception as fault:
        raise _cannot(name, fault) from fault


def _cannot(target: str, fault: Exception) -> CannotLoad:
    ours = str(Path(__file__).parent)  # the user's own line says more than the one of the SDK that refused it
    frames = traceback.extract_tb(fault.__traceback__)
    last = next((frame for frame in reversed(frames) if not frame.filename.startswith(ours)), frames[-1])
    return CannotLoad(f"{target} cannot be imported: {type(fault).__name__}: {fault} ({last.filename}:{last.lineno}).")
