"""The two servers that the transport bench compares, each run in a process of its own.

Both do the same work, with the same kind of certificate: a request names a size, the answer is that many bytes, which are held in memory. The peer is
aioquic's own asyncio server, its events handled directly: its stream objects would cost it a third more. A server prints its port and serves
until its standard input ends.
"""

import sys
from typing import Any

SIZES = (1024, 1024 * 1024)
ANSWERS = {b"%d" % size: bytes(size) for size in SIZES}


def serve_ours() -> None:
    """Our endpoint, with the caps that a thousand clients on one address would meet raised."""
    import trio

    from app.server.certificate import self_signed
    from app.server.datagrams import bind
    from app.server.endpoint import Endpoint, Exchange, Limits

    def answer(exchange: Exchange) -> None:
        exchange.send(ANSWERS[exchange.request])

    def log(level: str, message: str, /, **fields: object) -> None:
        print(level, message, fields, file=sys.stderr)

    async def main() -> None:
        limits = Limits(rate=0, max_streams=128, max_connections=4096, per_address=4096, idle_timeout=60)
        endpoint = Endpoint(answer, self_signed("localhost"), limits, log=log)
        async with trio.open_nursery() as nursery:
            print(await nursery.start(endpoint.serve, bind(0, "127.0.0.1", log=log)), flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)
            nursery.cancel_scope.cancel()

    trio.run(main)


def serve_asyncio() -> None:
    """aioquic's asyncio server with its own defaults."""
    import asyncio

    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.asyncio.server import serve
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import QuicEvent, StreamDataReceived

    from app.server.certificate import self_signed

    certificate = self_signed("localhost")

    class Protocol(QuicConnectionProtocol):
        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__(*args, **keywords)
            self._parts: dict[int, bytes] = {}

        def quic_event_received(self, event: QuicEvent) -> None:
            if isinstance(event, StreamDataReceived):
                request = self._parts.pop(event.stream_id, b"") + event.data
                if event.end_stream:
                    self._quic.send_stream_data(event.stream_id, ANSWERS[request], True)
                else:
                    self._parts[event.stream_id] = request

    async def main() -> None:
        configuration = QuicConfiguration(
            is_client=False,
            alpn_protocols=["mark"],
            certificate=certificate.chain[0],
            private_key=certificate.key,
        )
        server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Protocol)
        transport = server._transport
        assert transport is not None
        print(transport.get_extra_info("sockname")[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        server.close()

    asyncio.run(main())
