"""In a large cluster, thousands of workflows process incoming data at fixed times, and none of them may be skipped.

Every feed has a schedule with its own minute of the hour. What runs is one function in a pooled process; how many run
at once is the pool's business, and never moves when one is due.
"""

from __future__ import annotations

import os

from tidegate import App, Run, cron

app = App("story-01", namespace="stories")
FEEDS = int(os.environ.get("STORY_FEEDS", "5000"))


@app.python
def take_in(run: Run, feed: int) -> None:
    """Take in what a feed brought in the hour before."""
    print(f"feed {feed}: {run.previous_fire_time} to {run.fire_time}")


for number in range(FEEDS):
    app.schedule(f"feed-{number:04}", take_in.bind(feed=number), when=cron(f"{number % 60} * * * *"), enabled=True)
