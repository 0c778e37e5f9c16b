"""A maintenance workflow runs once a day, between 22:00 and 06:00. In some cases only if there is new data.

The window holds a run back until it opens; what came meanwhile joins the run. `min_interval` keeps it at once a night.
"""

from __future__ import annotations

from tidegate import App, Run, between, cron, dataset, min_interval

app = App("story-07", namespace="stories", timezone="Europe/Berlin")
NIGHT = between("22:00", "06:00")


@app.python
def tidy(run: Run) -> None:
    """Compact, expire, whatever a feed needs once a day."""
    print("tidied", run.cause)


app.schedule("tidy-every-night", tidy, when=cron("0 12 * * *"), only=[NIGHT], enabled=True)
app.schedule(
    "tidy-if-there-is-news", tidy, when=dataset("feed-07").new(), only=[NIGHT, min_interval("20h")], enabled=True
)
