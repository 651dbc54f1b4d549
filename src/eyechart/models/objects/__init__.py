"""Models that are handed over as objects of Python, loaded and with whatever state they have."""
