"""Signatures as the Standard Webhooks specification has them (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac

_PREFIX = "whsec_"


def key_of(secret: str) -> bytes:
    """`whsec_` and base64, as Standard Webhooks writes keys; any other text is the key itself."""
    if secret.startswith(_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except ValueError:
            pass
    return secret.encode()


def signature(key: bytes, identity: str, at: int, content: bytes) -> str:
    """`v1,` and the HMAC-SHA256 of `identity.at.content` in base64; `at` in Unix seconds, as it is sent along."""
    digest = hmac.new(key, f"{identity}.{at}.".encode() + content, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
