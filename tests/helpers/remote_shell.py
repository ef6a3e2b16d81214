"""A shell for another host, as ssh: it serves, or, with an address and a command, runs that command there.

Every program that can connect can run everything, so it is only for hosts that are namespaces.
"""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import time

PORT = 7022


class Shell(socketserver.StreamRequestHandler):
    """Runs one line; sends back what it writes, a null and its exit status."""

    def handle(self) -> None:
        command = self.rfile.readline().decode()
        done = subprocess.run(
            ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=self.connection,
            stderr=subprocess.STDOUT,
            check=False,
        )
        self.wfile.write(f"\0{done.returncode}".encode())


def connect(address: str) -> socket.socket:
    """Return a connection to the shell, which may be starting."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection((address, PORT))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def run(address: str, command: str) -> int:
    """Run a command there, print what it writes, and return its exit status; 255 if the connection ends."""
    with connect(address) as connection:
        connection.sendall(f"{command}\n".encode())
        with connection.makefile("rb") as answer:
            output, _, status = answer.read().partition(b"\0")
    sys.stdout.write(output.decode())
    return int(status or 255)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(run(sys.argv[1], " ".join(sys.argv[2:])))
    with socketserver.ThreadingTCPServer(("", PORT), Shell) as server:
        server.serve_forever()
