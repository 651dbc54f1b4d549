"""Question-answering benchmarks for generators: tables with images, prompt templates and the benchmark catalogue."""
