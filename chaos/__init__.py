"""Real faults on real processes, and a history checker that knows nothing of the implementation (`make chaos`)."""
