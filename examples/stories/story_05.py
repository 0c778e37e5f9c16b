"""A lake has thousands of feeds. Many arrive rarely, and need to be processed once a day, at no particular time.

Each feed has a schedule that looks once a day, at a moment of its own (jitter spreads them), and runs only if something
came. A feed without news costs nothing.
"""

from __future__ import annotations

from tidegate import App, Run, dataset, every

app = App("story-05", namespace="stories")
FEEDS = [f"feed-{number:03d}" for number in range(40)]


@app.python
def process(run: Run, feed: str) -> None:
    """Process what came for one feed since it was last processed."""
    print(f"{feed}: {run.inputs[feed].rows} new rows")


for name in FEEDS:
    app.schedule(
        f"daily-{name}",
        process.bind(feed=name),
        when=every("1d", jitter="20h", latch="0s") & dataset(name).new(),
        priority=20,
        enabled=True,
    )
