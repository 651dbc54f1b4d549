"""An OpenAI-compatible chat server for `many_requests.py`: configurable latency and next to no work.

    python benchmarks/slow_server.py --latency 0.1 --at_once 8

Prints its port. Every answer is "A"; beyond ``--at_once`` requests at a time it refuses with 429. GET /count tells what
it has seen.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys


class SlowServer:
    """Answers after a pause; counts requests, refusals, and repeated questions."""

    def __init__(self, latency: float, at_once: int) -> None:
        self.latency, self.at_once = latency, at_once
        self.in_flight = self.most = self.requests = self.refused = 0
        self.answered: dict[bytes, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower()[:15] == b"content-length:"
                    ),
                    0,
                )
                body = await reader.readexactly(length)
                status, answer = await self.answer(head.split(b" ", 2)[1], body)
                writer.write(b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n\r\n%s" % (status, len(answer), answer))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, path: bytes, body: bytes) -> tuple[int, bytes]:
        if path.endswith(b"/count"):
            twice = sum(count - 1 for count in self.answered.values())
            seen = {"requests": self.requests, "refused": self.refused, "most": self.most, "twice": twice}
            return 200, json.dumps(seen).encode()
        if path.endswith(b"/models"):
            return 200, b'{"data":[{"id":"m"}]}'
        self.requests += 1
        if self.at_once and self.in_flight >= self.at_once:
            self.refused += 1
            return 429, b'{"error":{"message":"too many at once"}}'
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await asyncio.sleep(self.latency)
        self.in_flight -= 1
        key = hashlib.md5(body).digest()  # noqa: S324 - a name, no secret
        self.answered[key] = self.answered.get(key, 0) + 1
        choice = b'{"message":{"role":"assistant","content":"A"},"finish_reason":"stop"}'
        return 200, b'{"choices":[%s],"usage":{"prompt_tokens":100,"completion_tokens":1}}' % choice


async def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--at_once", type=int, default=0, help="more requests at a time are refused; 0: any number")
    args = parser.parse_args()
    own = SlowServer(args.latency, args.at_once)
    server = await asyncio.start_server(own.serve, "127.0.0.1", 0, limit=2**26, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    sys.stdout.close()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
