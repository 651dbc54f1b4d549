"""Storage of computed results: vectors, answers, and the blobs that hold them."""
