"""Free ports on loopback that stay free while a broker is down.

The kernel gives outgoing connections a port of the ephemeral range (32768 up on Linux). A listener chosen
from there may find its port taken by some client when it starts again, so ours are chosen below it.
"""

import random
import socket

FIRST_PORT, LAST_PORT = 20_000, 32_000
TRIES = 200
"""Of 12,000 ports hardly any are taken: many tries in vain mean that something else is wrong."""


def free_ports(count: int) -> list[int]:
    """Return different ports on loopback that nobody listens on now.

    Raises:
        OSError: none could be had.
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
