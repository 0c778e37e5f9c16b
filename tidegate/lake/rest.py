"""PyIceberg's REST catalog with an end to every request: by itself it waits for an answer as long as the process lives.

Imported late: PyIceberg costs a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def load_bounded(name: str, properties: Mapping[str, str], seconds: float) -> Any:
    """As `pyiceberg.catalog.load_catalog`; a request to which nothing comes for `seconds` raises what `requests` raises
    then."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.utils.config import Config, merge_config

    class Bounded(RestCatalog):  # type: ignore[misc]
        def _create_session(self) -> Any:
            return _bounded(super()._create_session(), seconds)

        def _create_legacy_oauth2_auth_manager(self, session: Any) -> Any:  # which asks for a token at once
            return super()._create_legacy_oauth2_auth_manager(_bounded(session, seconds))

    return Bounded(name, **merge_config(Config().get_catalog_config(name) or {}, dict(properties)))


def _bounded(session: Any, seconds: float) -> Any:
    """A session of `requests` of which no request lacks a time-out, whatever adapters it has."""
    send = session.send

    def within(request: Any, **how: Any) -> Any:
        if how.get("timeout") is None:
            how["timeout"] = seconds
        return send(request, **how)

    session.send = within
    return session
