"""The beginning of an answer's body: neither an answer without end nor a small one that unpacks to gigabytes costs more
room than is wanted of it."""

from __future__ import annotations

import zlib

PACKED = "gzip, deflate"
"""What is understood: a value for `Accept-Encoding`."""
_EITHER = zlib.MAX_WBITS | 32


class Beginning:
    """The first `most` bytes of a body, unpacked so far and no further. What is packed in another way stays packed."""

    def __init__(self, encoding: str, most: int) -> None:
        """`encoding`: what the answer says in `Content-Encoding`; empty: nothing."""
        self.body = bytearray()
        self.more = False
        """Whether there is more than `body`."""
        self.broken = False
        """Whether it cannot be unpacked from here on."""
        self._most = most
        packed = encoding.strip().lower() in ("gzip", "x-gzip", "deflate")
        self._unpack = zlib.decompressobj(_EITHER) if packed else None

    def take(self, part: bytes) -> None:
        """The next bytes of the body, as they travelled."""
        if self.more or self.broken:
            return
        room = self._most + 1 - len(self.body)
        if self._unpack is None:
            self.body += part[:room]
        else:
            try:
                self.body += self._unpack.decompress(part, room)
            except zlib.error:
                self.broken = True
        self.more = len(self.body) > self._most
        del self.body[self._most :]
