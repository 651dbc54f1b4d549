"""Where work runs. The store keeps what is done, so every engine goes on where another one stopped."""
