"""Dataset readers: each converts one data format to a stream of samples."""
