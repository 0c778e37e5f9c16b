"""The wire between a process and PostgreSQL loses what it is told to lose, and nothing else."""

from __future__ import annotations

import struct

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from chaos.proxy import Frontend, Loss, Wire


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


BEGINNING = struct.pack("!II", 8, 80877103) + struct.pack("!II", 13, 196608) + b"user\0"
PREPARED = message(b"P", b"s1\0COMMIT\0\0\0") + message(b"P", b"s2\0SELECT 'COMMIT'\0\0\0")


@given(st.lists(st.integers(1, 7)))
def test_a_commit_is_known_in_whatever_pieces_it_comes(cuts: list[int]) -> None:
    stream = BEGINNING + PREPARED + message(b"B", b"\0s2\0rest") + message(b"Q", b"SELECT 1\0")
    commit = message(b"B", b"\0s1\0rest")
    frontend = Frontend()
    found = []
    for data in (stream, commit, message(b"Q", b"commit\0")):
        seen, place = False, 0
        for cut in [*cuts, len(data)]:
            seen |= frontend.commits(data[place : place + cut])
            place += cut
        found.append(seen)
    assert found == [False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("how", list(Loss))
def test_the_loss_of_a_commit_is_unknown_to_who_committed(database_url: str, how: Loss) -> None:
    parts = {key: str(value) for key, value in conninfo_to_dict(database_url).items()}
    wire = Wire(int(parts["port"]))
    through = {**parts, "host": "127.0.0.1", "port": str(wire.port), "sslmode": "disable"}
    try:
        with psycopg.connect(database_url, autocommit=True) as look:
            look.execute("CREATE TABLE kept (n integer)")
            with psycopg.connect(**through, prepare_threshold=0) as first:
                first.execute("INSERT INTO kept VALUES (1)")
            wire.losing = how
            with pytest.raises(psycopg.OperationalError), psycopg.connect(**through) as second:
                second.execute("INSERT INTO kept VALUES (2)")
            look.execute("SELECT pg_sleep(%s)", (1.2 if how is Loss.LATE else 0.05,))
            expected = [(1,)] if how is Loss.COMMIT else [(1,), (2,)]
            assert look.execute("SELECT n FROM kept ORDER BY n").fetchall() == expected
            assert wire.lost[how] == 1
            with psycopg.connect(**through) as third:
                assert third.execute("SELECT count(*) FROM kept").fetchone() == (len(expected),)
    finally:
        wire.close()
