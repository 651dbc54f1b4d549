"""Many requests at a time to one server: how many, in which order, and when to stop."""
