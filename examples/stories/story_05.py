"""A lake has thousands of feeds. Many arrive rarely, and need to be processed once a day, at no particular time.

Each feed has a schedule that looks once a day, at a minute of its own that spreads them over the day, and runs only if
something came. A feed without news costs nothing.
"""

from __future__ import annotations

from tidegate import App, Run, cron, dataset

app = App("story-05", namespace="stories")
FEEDS = [f"feed-{number:03d}" for number in range(40)]


@app.python
def process_one(run: Run, feed: str) -> None:
    """Process what came for one feed since it was last processed."""
    print(f"{feed}: {run.inputs[feed].rows} new rows")


for number, name in enumerate(FEEDS):
    minute = number * 36  # of the day
    app.schedule(
        f"daily-{name}",
        process_one.bind(feed=name),
        when=cron(f"{minute % 60} {minute // 60} * * *", latch="0s") & dataset(name).new(),
        priority=20,
        enabled=True,
    )
