"""Run at least every 4 hours. But the data is bursty: run sooner, as soon as 100 GB have come."""

from __future__ import annotations

from tidegate import App, Run, dataset, since_last_run

app = App("story-11", namespace="stories")
bursts = dataset("bursts-11")


@app.python
def process_bursts(run: Run) -> None:
    """Process what there is, which may be nothing."""
    print(f"{run.inputs[bursts].bytes} bytes")


app.schedule("often-enough", process_bursts, when=bursts.new(bytes="100 GB") | since_last_run("4h"), enabled=True)
