"""Encoders exported to ONNX: two towers and a tokenizer, without torch."""
