"""Rules: plain functions that read one answer and compare it with its row; a benchmark's entry names one."""
