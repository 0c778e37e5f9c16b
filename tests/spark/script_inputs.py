"""A program that is a file and reads its input."""

for name, one in run.inputs.items():  # noqa: F821
    print("script reads", name, one.partitions, one.read(spark).count(), one.table(spark).count())  # noqa: F821
