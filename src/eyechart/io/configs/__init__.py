"""Settings in files: YAML, TOML and JSON as plain values, with limits."""
