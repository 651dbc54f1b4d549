"""What the torch families share: running towers, precision, checkpoints, CPU autotune."""
