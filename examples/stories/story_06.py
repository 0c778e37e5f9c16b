"""A lake has more feeds than it can process at times. Important feeds are always on time, others defer and catch up.

All programs share the two slots of one pool. Who waits for a slot goes by priority; a point of priority is worth a
minute of waiting, so that the least important feed starts in the end, too.
"""

from __future__ import annotations

from tidegate import App, Run, dataset

app = App("story-06", namespace="stories")


@app.python(pool="narrow")
def process(run: Run, feed: str) -> None:
    """Process one arrival of a feed."""
    print(f"{feed}: {run.inputs[feed].rows} rows")


for feed, priority in (("orders-06", 90), ("clicks-06", 50), ("archive-06", 10)):
    app.schedule(
        f"process-{feed}",
        process.bind(feed=feed),
        when=dataset(feed).new(),
        priority=priority,
        waiting="all",  # each arrival is a run of its own
        only=[],  # the pool alone limits how many run
        enabled=True,
    )
