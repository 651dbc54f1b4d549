"""InternVL-C and InternVL-G: one network for both checkpoint formats, with its weights and tokenizer."""
