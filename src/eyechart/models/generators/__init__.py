"""Generator families: one file each. Heavy libraries are imported when a model is loaded, not before."""
