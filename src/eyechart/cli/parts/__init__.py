"""What commands share: reading results, the table of a run, the description of data."""
