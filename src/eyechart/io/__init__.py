"""Files, images, safe parsing, terminal output and progress."""
