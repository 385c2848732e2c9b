"""A network of bad habits: a UDP relay to a server on loopback that loses, doubles and delays datagrams and changes its port.

What happens to a datagram is drawn from a seeded generator, in the order of arrival.
"""

import heapq
import itertools
import math
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

Address = tuple[str, int]

Fate = Callable[[random.Random, bool], Sequence[float]]
"""Given chance and whether the client sent it: after how many seconds each copy of a datagram goes on; none = it is lost."""


def good(chance: random.Random, asks: bool) -> Sequence[float]:
    return [0.0]


class Relay:
    """Takes one client's datagrams at `address`. After every `patience` of them it forgets, as a NAT may, by which of its `ports` it went to
    the server, and what still comes to that one is lost.
    """

    def __init__(self, server: Address, fate: Fate, patience: int) -> None:
        self._server = server
        self._fate = fate
        self._patience = patience
        self._chance = random.Random(7)
        self._late: list[tuple[float, int, bytes, trio.socket.SocketType, Address]] = []
        self._order = itertools.count()
        self._woken = trio.Event()
        self.ports = 0

    async def run(self, nursery: trio.Nursery) -> None:
        """Relays until it is cancelled."""
        self._front = await _bound()
        self.address: Address = self._front.getsockname()
        nursery.start_soon(self._ask)
        nursery.start_soon(self._deliver)

    async def _ask(self) -> None:
        with self._front:
            data, self._client = await self._front.recvfrom(65536)
            while True:
                async with trio.open_nursery() as nursery:
                    self.ports += 1
                    back = await _bound()
                    nursery.start_soon(self._answer, back)
                    for _ in range(self._patience):
                        await self._pass_on(data, back, self._server)
                        data, self._client = await self._front.recvfrom(65536)
                    nursery.cancel_scope.cancel()

    async def _answer(self, back: trio.socket.SocketType) -> None:
        with back:
            while True:
                await self._pass_on(await back.recv(65536), self._front, self._client)

    async def _pass_on(self, data: bytes, sock: trio.socket.SocketType, to: Address) -> None:
        for delay in self._fate(self._chance, sock is not self._front):
            if delay:
                due = trio.current_time() + delay
                heapq.heappush(self._late, (due, next(self._order), data, sock, to))
                self._woken.set()
            else:
                await sock.sendto(data, to)

    async def _deliver(self) -> None:
        """Sends what was held back, each when it is due and the rest in the order of arrival."""
        while True:
            self._woken = trio.Event()
            with trio.move_on_at(self._late[0][0] if self._late else math.inf):
                await self._woken.wait()
            while self._late and self._late[0][0] <= trio.current_time():
                _, _, data, sock, to = heapq.heappop(self._late)
                if sock.fileno() >= 0:  # else the port is forgotten
                    await sock.sendto(data, to)


@asynccontextmanager
async def relay(server: Address, fate: Fate = good, patience: int = 1 << 30) -> AsyncIterator[Relay]:
    """A relay that runs."""
    made = Relay(server, fate, patience)
    async with trio.open_nursery() as nursery:
        await made.run(nursery)
        yield made
        nursery.cancel_scope.cancel()


async def _bound() -> trio.socket.SocketType:
    sock = trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM)
    await sock.bind(("127.0.0.1", 0))
    return sock
