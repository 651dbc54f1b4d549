"""What was computed once: vectors, answers, and the blobs that hold them."""
