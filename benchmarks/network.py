"""A loopback proxy that gives every connection a latency and a rate, as a network before a registry does, and counts.

Usage: network.py TARGET_PORT BYTES_PER_S LATENCY_S

Prints its port, and serves until it is stopped. Then it prints, as JSON, how many bytes the clients sent, and how often they
asked for each path; the latter only says something when requests have no bodies.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field

CHUNK_BYTES = 64 * 1024
# What a connection may send at once after a pause; makes up for timers that fire late.
BURST_S = 0.05
_GET = re.compile(rb"^GET (\S+) HTTP/")


@dataclass
class Pacer:
    """Decides when bytes of a connection may pass: never more than rate times time, plus one burst."""

    bytes_per_s: float
    free_at_s: float = 0.0

    def delay_s(self, size_bytes: int, now_s: float) -> float:
        """Account for bytes that are ready at ``now_s``; return how long they have to wait."""
        self.free_at_s = max(self.free_at_s, now_s - BURST_S) + size_bytes / self.bytes_per_s
        return max(self.free_at_s - now_s, 0.0)


@dataclass
class Network:
    """The proxy: connections to it go on to ``target_port``; what comes back is slow."""

    target_port: int
    bytes_per_s: float
    latency_s: float
    sent_bytes: int = 0
    gets: Counter[str] = field(default_factory=Counter)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one connection. The latency is paid per request: once each way would need a queue."""
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        with contextlib.suppress(asyncio.CancelledError):  # the proxy is being stopped
            await asyncio.gather(self._forward(reader, to_writer), self._pace(to_reader, writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass requests on, each late; a client that pipelines nothing waits so once per request."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                self.sent_bytes += len(data)
                self.gets.update(path.decode() for path in _GET.findall(data))
                await asyncio.sleep(self.latency_s)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _pace(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pacer = Pacer(self.bytes_per_s)
        clock = asyncio.get_running_loop().time
        try:
            while data := await reader.read(CHUNK_BYTES):
                await asyncio.sleep(pacer.delay_s(len(data), clock()))
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


async def main(target_port: int, bytes_per_s: float, latency_s: float) -> None:
    network = Network(target_port, bytes_per_s, latency_s)
    server = await asyncio.start_server(network.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with server:
        await stopped.wait()
    print(json.dumps({"sent_bytes": network.sent_bytes, "gets": network.gets}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
