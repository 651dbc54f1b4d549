"""What tasks learn from vectors: probes, neighbours, clusters. Arrays in, arrays out; no dataset and no model."""
