"""What Pillow does not say of an image: how deep its values are, and whether all of it is there."""
