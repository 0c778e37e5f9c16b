"""What a reference to a secret stands for, and what nobody waits for who reads it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tidegate.documents.references import LARGEST, revealed
from tidegate.domain.errors import Refused


def test_a_secret_is_in_the_environment_or_in_a_file_without_its_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(" s3cret \r\n")
    assert revealed("env:KEY", {"KEY": "s3cret"}) == "s3cret"
    assert revealed(f"file:{tmp_path}/key") == " s3cret "
    assert revealed("written out") == "written out"


def test_what_is_not_there_is_told_with_what_it_is_for(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"^The secret is in the scheduler's environment variable KEY, which is not set"):
        revealed("env:KEY", {"KEY": ""})
    with pytest.raises(Refused, match=r"^The address in .*/none cannot be read: .* that Spark may read\.$"):
        revealed(f"file:{tmp_path}/none", {}, what="The address", who="Spark")


def test_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"s3cret")
    over = threading.Timer(2, os.close, [writer])  # should somebody read it after all, they end by this
    over.start()
    with pytest.raises(Refused, match=f"The secret in {pipe} cannot be read: it is no regular file") as refused:
        revealed(f"file:{pipe}")
    over.cancel()
    os.close(writer)
    assert "regular file of at most 64 KiB" in refused.value.remedy


def test_only_a_small_regular_file_is_read_and_what_is_wrong_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "most").write_bytes(b"x" * LARGEST)
    (tmp_path / "large").write_bytes(b"x" * (LARGEST + 1))
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert len(revealed(f"file:{tmp_path}/most")) == LARGEST
    for place, why in {
        f"{tmp_path}/large": "it is larger than 64 KiB",
        f"{tmp_path}/bytes": "it is no UTF-8 text",
        f"{tmp_path}/none": "No such file or directory",
        f"{tmp_path}": "it is no regular file",
        "/dev/null": "it is no regular file",
        "/a\0b": "null",
    }.items():
        with pytest.raises(Refused) as refused:
            revealed(f"file:{place}")
        assert f"The secret in {place} cannot be read: " in refused.value.message and why in refused.value.message
