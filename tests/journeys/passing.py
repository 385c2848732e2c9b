"""Starts a program as a service manager does that has bound its UDP sockets: `python passing.py HOST[,HOST…] COMMAND…`.

The sockets are on one free port and become the descriptors from 3 on; then this process turns into the program, in a network namespace that has
nothing but a loopback interface which is down: whatever the program receives and sends goes through the sockets.
"""

import os
import socket
import sys

ISOLATED = ("unshare", "--map-root-user", "--net")


def main(hosts: str, *command: str) -> None:
    sockets: list[socket.socket] = []
    for host in hosts.split(","):
        made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        if ":" in host:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, sockets[0].getsockname()[1] if sockets else 0))
        sockets.append(made)
    for number, made in enumerate(sockets):
        os.dup2(made.fileno(), 90 + number)
    for number in range(len(sockets)):
        os.dup2(90 + number, 3 + number)
        os.set_inheritable(3 + number, True)
    os.environ |= {"LISTEN_FDS": str(len(sockets)), "LISTEN_PID": str(os.getpid())}
    os.execvp(ISOLATED[0], [*ISOLATED, *command])


if __name__ == "__main__":
    main(*sys.argv[1:])
