"""Command-line arguments to settings: the parser, and the flags, positional arguments and config files of ``eval``."""
