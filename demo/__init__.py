"""The main job on real data: run by `make demo`."""
