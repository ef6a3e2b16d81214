"""A program that sends a given number of messages; its system calls are counted from outside."""

from __future__ import annotations

import sys

from bench.consumer import BASELINE, consumer_process
from bench.options import Options
from bench.peers import load_peer


def main(peer_name: str, what: str, count: int) -> None:
    peer = load_peer(peer_name)
    with consumer_process(peer, Options(pin="none")) as consumer:
        item = peer.fresh(1 << 20)
        consumer.hand_over(BASELINE)
        consumer.hand_over(peer.message(item))  # opens the connection
        for _ in range(count):
            if what == "bytes":
                consumer.hand_over(BASELINE)
                continue
            if what == "fresh":
                peer.dispose(item)
                item = peer.fresh(1 << 20)
            consumer.hand_over(peer.message(item))
        peer.dispose(item)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
