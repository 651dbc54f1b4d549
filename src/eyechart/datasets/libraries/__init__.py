"""Data that other libraries read: tfds, torchvision, MTEB."""
