"""A feed arrives every second. Do not run every second: wait until enough has come, or some time has passed."""

from __future__ import annotations

from tidegate import App, Run, dataset

app = App("story-10", namespace="stories")
stream = dataset("stream-10")


@app.python
def process_stream(run: Run) -> None:
    """Process what has accumulated."""
    print(f"{run.inputs[stream].bytes} bytes")


app.schedule(
    "enough-or-a-while", process_stream, when=stream.new(bytes="100 MB").max_wait("10m", then="run"), enabled=True
)
