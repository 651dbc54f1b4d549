"""Run the scripted server in a process of its own: ``python -m support.serve MODEL DELAY``; it prints its address."""

from __future__ import annotations

import sys
import time

from support.openai_server import OpenAIServer

if __name__ == "__main__":
    with OpenAIServer(models=(sys.argv[1],), delay=float(sys.argv[2])) as server:
        sys.stdout.write(f"{server.api_base}\n")
        sys.stdout.flush()
        while True:
            time.sleep(1)
