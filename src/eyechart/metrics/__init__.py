"""Pure functions over small arrays and plain values. Nothing here reads files, models or settings."""
