"""The process between the owner and its PostgreSQL: nothing is left behind when the owner dies.

Run by path with a bare interpreter (`python -I -S guardian.py COMMAND...`), so only the standard library is imported.
It starts the postmaster as its child and waits for either of two things: its standard input ends, which happens when
the owner closes it or dies by whatever cause; or the postmaster ends by itself. In the first case the postmaster is
asked to shut down fast (SIGINT) and, when it takes too long, at once (SIGQUIT), which costs a recovery at the next
start but no data. One letter on standard input before its end chooses the manner: `f` fast, `i` immediate.

If this very process is killed the postmaster stays; the next start of the owner finds it by its data directory.
"""

import os
import select
import signal
import subprocess
import sys

FAST_PATIENCE = 20.0  # seconds for a fast shutdown, which writes a checkpoint


def main(command: list[str]) -> int:
    """Guard `command` until it, or the owner, has ended; its exit status."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # a terminal's Ctrl-C is for the owner, who then closes the pipe
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # The pipe is not for the postmaster, which would keep it open; the ignored signals it takes over by itself.
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    how = signal.SIGINT
    while server.poll() is None:
        ready, _, _ = select.select([0, ended], [], [], 5.0)
        if 0 in ready:
            letter = os.read(0, 1)
            if letter == b"i":
                how = signal.SIGQUIT
            if not letter:
                return stop(server, how)
        if ended in ready:
            os.read(ended, 512)
    return server.returncode


def stop(server: "subprocess.Popen[bytes]", how: int) -> int:
    """Ask, then insist, then kill."""
    for number, patience in ((how, FAST_PATIENCE), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
        server.send_signal(number)
        try:
            return server.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
