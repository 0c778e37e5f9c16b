"""Programs that run elsewhere than in a process of the worker. Deploy it with `tidegate deploy examples/backends.py`.

settle-eu    an event every night: nothing runs, who listens to it goes on
    refresh-eu   a call of another system; its token and the secret it is signed with are in the worker's environment
    settle-lake  an application on a cluster, by spark-submit
"""

from __future__ import annotations

from tidegate import App, Event, Run, cron, event

app = App("backends", namespace="examples")

settled = app.publish(
    "settled",
    Event("user.settled", "{{ arguments.region }}", {"day": '{{ fire_time | date:"%Y-%m-%d" }}'}),
)
app.schedule("settle-eu", settled.bind(region="eu"), when=cron("30 2 * * *"))


@app.python
def statement(run: Run) -> None:
    """Whoever waits for the event is given it."""
    print(f"statement of {run.events[0]['payload']['day']}")


app.schedule("statement", statement, when=event("user.settled", key="eu"))


refresh = app.http(
    "refresh",
    "https://reports.example.org/{{ arguments.region }}/refresh",
    headers={"Authorization": "env:REPORTS_TOKEN"},
    body={"day": '{{ fire_time | date:"%Y-%m-%d" }}'},
    success=["2xx", 409],  # 409: it has been done already
    secret="env:REPORTS_SECRET",
)
app.schedule("refresh-eu", refresh.bind(region="eu"), when=event("user.settled", key="eu"), timeout="1h")

settle = app.spark_submit(
    "settle",
    "/srv/jobs/settle.py",
    master="spark://master.example.org:7077",
    conf={"spark.executor.memory": "2g", "spark.hadoop.fs.s3a.secret.key": "env:S3_SECRET"},
    args=["--day", '{{ fire_time | date:"%Y-%m-%d" }}', "--region", "{{ arguments.region }}"],
)
app.schedule("settle-lake", settle.bind(region="eu"), when=cron("0 3 * * *"), timeout="2h")
