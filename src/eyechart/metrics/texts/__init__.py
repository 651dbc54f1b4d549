"""Rules that read and compare the texts of answers; `eyechart.metrics.answers` has the names that other code uses."""
