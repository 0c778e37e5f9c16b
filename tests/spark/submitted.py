"""An application as people submit it: it works on the cluster, tells what it was given, and ends as it is told."""

import os
import sys
import time
from pathlib import Path

how, path = sys.argv[1:3]
if how in ("work", "hold"):
    from pyspark.sql import SparkSession

    context = SparkSession.builder.getOrCreate().sparkContext
    if how == "work":
        print("total", context.parallelize(range(100), 1).sum(), "of", context.master, flush=True)
    print("told", context.getConf().get("spark.tidegate.run-key"), os.environ.get("TIDEGATE_FENCE"), sys.argv[3:])
sys.stdout.flush()
Path(f"{path}.begun").write_text(os.environ.get("LEVEL", ""))
while how != "fail" and not Path(path).exists():
    time.sleep(0.05)
sys.exit(3 if how == "fail" else 0)
