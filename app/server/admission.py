"""Who is let in, how much of the board one client may hold, and when the next request may run.

Every cap of the endpoint stands in `Limits`, each with its reason. The rest is bookkeeping on numbers: it knows no socket and no
connection, and time comes in as an argument, so every rule can be tested without waiting for it. All tables are bounded, because their
keys come from the network.
"""

import enum
import functools
import ipaddress
import math
from collections.abc import Hashable

import msgspec

from app.protocol.limits import REQUEST_MAX


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The caps of one endpoint. Seconds, bytes and counts; the defaults suit a board with 512 MB and four slow cores."""

    # What the operator may set (operations §1).
    max_streams: int = 10
    """Requests at once on one connection (wire §1.6); every open stream costs 2 KiB and is walked for every packet that is sent."""
    idle_timeout: float = 30.0
    """A client that vanished is forgotten after this silence (wire §1.7)."""
    request_timeout: float = 10.0
    """For a request to arrive and for its rate token to come (wire §1.16, §6); 0 = for ever, the wait for a token then 10 s."""
    rate: float = 50.0
    """Requests per second and client address (wire §6); 0 = not limited."""
    burst: int = 100
    """Requests that a client address may send at once after a pause."""

    # Connections.
    max_connections: int = 1024
    """An idle connection holds about 77 KiB: this many stay below 80 MB."""
    per_address: int = 256
    """A quarter of them, for a single address (or IPv6 /64, which one host owns)."""
    half_open: int = 512
    """Handshakes in progress: each holds 90 KiB. Past this, as past the two above, a newcomer takes the place of another."""
    retry_above: int = 32
    """From here on a client proves its address first (Retry): one more round trip, but forged addresses cost 0.03 ms instead of 2.8 ms."""
    handshake_timeout: float = 8.0
    """A handshake takes three round trips; the library itself would wait for the whole idle timeout."""

    # What arrives.
    request_bytes: int = REQUEST_MAX
    """The largest request of wire §2.1: line, line end, payload."""
    receive_window: int = 256 * 1024
    """Unread bytes per connection, gaps between out-of-order bytes included; 2.5 MB/s at 100 ms. The library's own doubles for ever."""
    held_total: int = 64 * 1024 * 1024
    """Bytes of requests that arrive or wait for their answer, in all. Past it those over `held_small` are refused, so reads still get through."""
    held_small: int = 64 * 1024
    """A request up to this size is read even when `held_total` is spent."""

    # What leaves.
    queued_per_connection: int = 4 * 1024 * 1024
    """Answer bytes not yet acknowledged. Past it the connection's further requests wait until the client has taken some."""
    queued_total: int = 64 * 1024 * 1024
    """The same for all connections. Past it the connection that has taken nothing for longest is closed."""
    write_deadline: float = 10.0
    """Each 64 KiB of an answer must be acknowledged within this, or the client has stopped reading and the connection is closed."""

    # Tables.
    addresses: int = 4096
    """Client addresses whose rate is remembered (about 200 bytes each)."""

    @property
    def patience(self) -> float:
        """How long a request waits for its rate token (operations §1)."""
        return self.request_timeout or 10.0


class Rate:
    """Token buckets, one per client address: `rate` tokens a second, at most `burst` saved up (wire §6).

    A token that is not there yet is promised: the bucket goes below zero and the request is told how long to wait. A wait above `patience` is
    refused at once and takes nothing.
    """

    def __init__(self, rate: float, burst: int, patience: float, addresses: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._patience = patience
        self._addresses = addresses
        self._buckets: dict[
            str, tuple[float, float]
        ] = {}  # address -> tokens, when; the longest untouched first

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, now: float) -> float | None:
        """Takes a token: the seconds until it is there (0 = now), or None if that would be longer than the patience."""
        if not self._rate:
            return 0.0
        tokens, then = self._buckets.pop(address, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        wait = max(0.0, (1.0 - tokens) / self._rate)
        taken = wait <= self._patience
        self._buckets[address] = (tokens - 1.0 if taken else tokens, now)
        if len(self._buckets) > self._addresses:
            del self._buckets[next(iter(self._buckets))]
        return wait if taken else None


class Verdict(enum.Enum):
    """What to do with a stranger's first datagram."""

    ACCEPT = enum.auto()
    RETRY = enum.auto()
    IGNORE = enum.auto()


_FORGERIES = 5.0
_FORGERIES_AT_ONCE = 20
"""First flights without sense per second, and at once, that raise no suspicion. Each costs a connection: 0.3 ms."""

_SUSPICION = 10.0
"""Seconds for which everybody proves his address after a flood of such flights."""

_ENTRIES = 20.0
_ENTRIES_AT_ONCE = 50
"""Connections per second, and at once, of one address that had to prove itself: a proof can be had once and its use repeated."""


class Door:
    """Counts connections, in all, half open and per address, and judges who may come in."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._per_network: dict[str, int] = {}
        self._forgeries = Rate(_FORGERIES, _FORGERIES_AT_ONCE, 0.0, 1)
        self._entries = Rate(_ENTRIES, _ENTRIES_AT_ONCE, 0.0, limits.addresses)
        self._suspicious_until = -math.inf
        self.connections = 0
        self.half_open = 0
        self.refused = 0
        self.retried = 0

    def judge(self, address: str, now: float, *, proved: bool) -> Verdict:
        """The verdict on a first datagram from this address; `proved` = it carried the token of our Retry.

        Who has proved his address is accepted although it may be `full`: then somebody else must go first.
        """
        if proved:
            if self._entries.take(network_of(address), now) is None:
                self.refused += 1
                return Verdict.IGNORE
        elif now < self._suspicious_until or self.half_open >= self._limits.retry_above or self.full(address):
            self.retried += 1
            return Verdict.RETRY
        return Verdict.ACCEPT

    def full(self, address: str) -> bool:
        """Whether there is no room for one more connection of this address."""
        limits = self._limits
        return (
            self.connections >= limits.max_connections
            or self.half_open >= limits.half_open
            or self.held(address) >= limits.per_address
        )

    def makes_room(self, other: str, address: str, *, confirmed: bool) -> bool:
        """Whether the end of this connection of `other` lets one of `address` in, as far as one cap can be told."""
        if self.held(address) >= self._limits.per_address:
            return network_of(other) == network_of(address)
        return not confirmed or self.half_open < self._limits.half_open

    def held(self, address: str) -> int:
        """Connections of whom this address stands for."""
        return self._per_network.get(network_of(address), 0)

    def forged(self, now: float) -> None:
        """A first flight made no sense. Many of them are a flood, and then nobody is believed without proof for a while."""
        if self._forgeries.take("", now) is None:
            self._suspicious_until = now + _SUSPICION

    def enter(self, address: str) -> None:
        """A half-open connection begins."""
        network = network_of(address)
        self._per_network[network] = self._per_network.get(network, 0) + 1
        self.connections += 1
        self.half_open += 1

    def confirm(self) -> None:
        """A handshake is complete."""
        self.half_open -= 1

    def leave(self, address: str, *, confirmed: bool) -> None:
        """A connection is over."""
        network = network_of(address)
        left = self._per_network.pop(network) - 1
        if left:
            self._per_network[network] = left
        self.connections -= 1
        if not confirmed:
            self.half_open -= 1


@functools.lru_cache(maxsize=2048)
def network_of(address: str) -> str:
    """Whom an address stands for when connections are counted: an IPv6 host owns its whole /64."""
    if ":" not in address:
        return address
    packed = ipaddress.IPv6Address(address).packed
    return packed[:8].hex()


class Patience:
    """How much processor time strangers without proof may have: a share of one core, saved up for a moment.

    While there is any, all are answered. When it is spent, only those who ask again are, from a reserve that the others cannot touch: a flood of
    forged datagrams is new every time, an honest client repeats itself. Whoever was there before is kept in a table of marks, which takes
    no more memory however many come, and errs now and then in a stranger's favour.
    """

    SHARE = 1 / 3
    SAVED = 0.05
    RESERVE = 0.05
    """Seconds."""

    _MARKS = 1 << 18
    _SPAN = 2.0
    """Seconds of one mark's number. One is known for one to two spans: clients repeat themselves after 0.2 to 1 s."""

    def __init__(self) -> None:
        self._marks = bytearray(self._MARKS)
        self._left = self.SAVED
        self._then = -math.inf

    def all_heard(self, now: float) -> bool:
        """Whether everybody may be answered now."""
        self._left = min(self.SAVED, self._left + (now - self._then) * self.SHARE)
        self._then = now
        return self._left > 0.0

    def asks_again(self, who: Hashable, now: float) -> bool:
        """Whether this stranger was here a moment ago and may be answered. Remembers it."""
        place = hash(who) % self._MARKS
        number = int(now / self._SPAN) % 255
        then, self._marks[place] = self._marks[place], number + 1
        return then > 0 and (number + 1 - then) % 255 <= 1 and self._left > -self.RESERVE

    def spend(self, seconds: float) -> None:
        """Counts the time that answers took."""
        self._left -= seconds


class Budget:
    """Bytes held for all connections together, and how many may be."""

    __slots__ = ("cap", "used")

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.used = 0


class Throttle:
    """Lets one line through per period and counts the others."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._next = -math.inf
        self._suppressed = 0

    def admit(self, now: float) -> int | None:
        """The number of lines suppressed since the last one, or None: this one is suppressed too."""
        if now < self._next:
            self._suppressed += 1
            return None
        suppressed, self._suppressed = self._suppressed, 0
        self._next = now + self._period
        return suppressed
