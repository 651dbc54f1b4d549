"""From words on the command line to settings: the parser, the flags of ``eval``, its positions and its config files."""
