"""The certificate authorities that Java should trust: those that this machine trusts.

A Java from a package brings a list of its own, which lacks the authority of a company proxy. Python reads the
system's set (or the one that SSL_CERT_FILE names), so that set is written out in Java's JKS format: a few lines,
and no tool is needed that a small runtime may not have.
"""

from __future__ import annotations

import hashlib
import ssl
import struct
from pathlib import Path

PASSWORD = "changeit"
"""Java's customary one: a trust store holds nothing secret, its password is only a checksum's salt."""


def system_trust_store(target: Path) -> Path | None:
    """Write the system's CA set to `target` as JKS; None when Python knows of no CA set."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".new")
    fresh.write_bytes(_jks(certificates))
    fresh.replace(target)
    return target


def _jks(certificates: list[bytes]) -> bytes:
    body = struct.pack(">IIi", 0xFEEDFEED, 2, len(certificates))
    for number, der in enumerate(certificates):
        body += struct.pack(">i", 2) + _utf(f"ca{number}") + struct.pack(">q", 0)
        body += _utf("X.509") + struct.pack(">i", len(der)) + der
    digest = hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False)
    return body + digest.digest()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
