"""Programs that answer each line of their standard input with a line of their output."""

from __future__ import annotations

import subprocess


class Peer:
    """Such a program."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)

    def begin(self, words: str) -> None:
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        return self.process.stdout.readline().strip()

    def ask(self, words: str = "") -> str:
        self.begin(words)
        return self.answer()

    def end(self) -> None:
        self.process.communicate(timeout=30)
        assert self.process.returncode == 0
