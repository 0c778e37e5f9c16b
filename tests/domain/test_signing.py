"""One signature for webhooks and calls: a receiver checks both by the same rule."""

from __future__ import annotations

import pytest

from tidegate.domain.signing import key_of, signature

pytestmark = pytest.mark.requirement("EVENT-9", "RUN-6")


def test_it_is_that_of_standard_webhooks() -> None:
    """Known from the libraries for receivers."""
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["plain", "", "whsec_no base64", "whsec_schön", "schön"])
def test_any_other_text_is_the_key_itself(secret: str) -> None:
    assert key_of(secret) == secret.encode()
