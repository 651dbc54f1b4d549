"""Learners on vectors: probes, neighbours, clusters. Arrays in, arrays out, without datasets or models."""
