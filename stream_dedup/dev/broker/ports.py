"""Finds free ports on loopback that stay free while a broker is down.

The kernel gives outgoing connections ports of the ephemeral range (from 32768 on Linux). A client may take such a port
while a broker restarts, so the ports of brokers are below that range.
"""

import random
import socket

FIRST_PORT, LAST_PORT = 20_000, 32_000
TRIES = 200
"""Hardly any of the 12,000 ports are taken: so many failures mean that something else is wrong."""


def free_ports(count: int) -> list[int]:
    """Return different ports on loopback on which no process listens now.

    Raises:
        OSError: too few free ports were found.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(FIRST_PORT, LAST_PORT), TRIES):
        if _is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    msg = f"fewer than {count} free ports between {FIRST_PORT} and {LAST_PORT} on 127.0.0.1"
    raise OSError(msg)


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
