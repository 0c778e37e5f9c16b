"""B reads what A wrote: B runs at once after A has succeeded, and not when A failed."""

from __future__ import annotations

from tidegate import App, Run, never

app = App("story-04", namespace="stories")


@app.python
def a(run: Run, day: str, fail: bool = False) -> None:
    """Write the output of a day."""
    if fail:
        raise RuntimeError(f"{day} could not be written")
    print(f"wrote {day}")


@app.python
def b(run: Run) -> None:
    """Read what A wrote: `upstream` is A's run, with its arguments."""
    assert run.upstream is not None
    print(f"reading {run.upstream.arguments['day']}")


app.schedule("a-by-hand", a.bind(day="2026-11-21"), when=never(), enabled=True)
app.schedule("b-after-a", b, when=a.succeeded(), enabled=True)
