"""InternVL-C and InternVL-G: one network for both forms of checkpoint, its weights, its tokens."""
