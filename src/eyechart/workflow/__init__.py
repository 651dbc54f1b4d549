"""What ``run_task`` does with a config: one module for each kind of work, on top of `eyechart.run`."""
