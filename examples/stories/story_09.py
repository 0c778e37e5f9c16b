"""A feed arrives in chunks over a while, or it is known that it always comes in four. Run only when all has arrived."""

from __future__ import annotations

from tidegate import App, Run, dataset

app = App("story-09", namespace="stories")
chunks = dataset("chunks-09")


@app.python
def process_chunks(run: Run) -> None:
    """Process all chunks at once."""
    print(f"{run.inputs[chunks].rows} rows in {len(run.inputs[chunks].partitions)} chunks")


app.schedule("when-it-falls-quiet", process_chunks, when=chunks.new().quiet("10m", max_wait="4h"), enabled=True)
app.schedule("when-all-four-are-there", process_chunks, when=chunks.new(partitions=4), enabled=True)
