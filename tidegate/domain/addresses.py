"""Addresses that can never work, told where they are written instead of by what fails later. Nobody is asked."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_HOST = re.compile(r"\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\s,:/@?#\[\]]+")
_PROTOCOL = re.compile(r"(?:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://", re.IGNORECASE)
"""What librdkafka takes before a host."""


def port_fault(port: str) -> str:
    """Why no port is this one; empty: one may be."""
    if re.fullmatch(r"\d{1,5}", port, re.ASCII) and 1 <= int(port) <= 65_535:
        return ""
    return f"{port[:20]!r} is no port; a port is a number from 1 to 65535"


def http_fault(url: str) -> str:
    """Why nothing can be asked at a URL; empty: something may be. A user and password in it are nobody's business
    here, and are not repeated."""
    if any(one.isspace() or not one.isprintable() for one in url):
        return "must be an address http://… or https://… without spaces, line ends and other invisible characters"
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that are no IPv6 address
        return "must be an address http://… or https://…; an IPv6 address stands in brackets, http://[::1]:8080/"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "must be an address http://… or https://…"
    return _place_fault(parts.netloc.rpartition("@")[2])


def servers_fault(servers: str) -> str:
    """Why a list `host:port, host:port` of Kafka's servers is none; empty: it may be one."""
    if "@" in servers:  # not repeated: it may be a password
        return "must hold no user and password; write host:port, and name where the password is kept by `secret`"
    for number, one in enumerate(servers.split(","), start=1):
        if not one.strip():
            return f"server {number} of the list is empty; write host:port, host:port"
        place = _PROTOCOL.sub("", one.strip(), count=1)
        if reason := _place_fault(place):
            return f"server {number}, {one.strip()!r}: {reason}"
    return ""


def _place_fault(place: str) -> str:
    """Of `host` or `host:port`."""
    host = _HOST.match(place)
    if host is None or (rest := place[host.end() :]) and not rest.startswith(":"):
        return f"{place[:100]!r} is no host:port, e.g. kafka-1:9092 or [::1]:9092"
    return port_fault(rest[1:]) if rest else ""
