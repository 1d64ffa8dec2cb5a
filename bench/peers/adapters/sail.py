"""How does Sail do it? By SQL, through PySpark's Connect client, from a server that this worker starts and ends."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.peers.adapters.adapter import Adapter, SqlCommands, versions_of
from bench.peers.engines import Engine, sail_command

__all__ = ["opened"]

LOOPBACK = "127.0.0.1"
START_SECONDS = 60


class SailAdapter(SqlCommands):
    def __init__(self, scratch: Path) -> None:
        from pyspark.sql import SparkSession

        command, port = sail_command(), _free_port()
        assert command is not None
        self.command = command
        with (scratch / "sail.log").open("wb") as log:
            arguments = [command, "spark", "server", "--ip", LOOPBACK, "--port", str(port)]
            self.server = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _wait_for(port, self.server)
        self.spark = SparkSession.builder.remote(f"sc://{LOOPBACK}:{port}").getOrCreate()
        self.run("SELECT 1")

    def run(self, text: str) -> list[Any]:
        return self.spark.sql(text).collect()

    def versions(self) -> dict[str, str]:
        python = self.command.parent / "python"
        asked = "from importlib.metadata import version; print(version('pysail'))"
        done = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True)
        return {"pysail": done.stdout.strip(), **versions_of("pyspark")}

    def open(self, path: str) -> int | None:
        # It has no statement that tells the number of files. No file can hold such a row, so none is opened.
        self.query(path, ["count(*)"], "id < -1")
        return None

    def jobs(self) -> int | None:
        return None

    def is_conflict(self, error: Exception) -> bool:
        # "Failed to commit transaction" names nobody; "Missing commit file" comes up only while others commit.
        words = str(error).lower()
        return any(word in words for word in ("failed to commit", "missing commit file", "conflict", "concurrent"))

    def close(self) -> None:
        self.spark.stop()
        self.server.terminate()
        self.server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert server.poll() is None, f"Sail ended with {server.returncode}"
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"Sail did not listen within {START_SECONDS} s")


def opened(engine: Engine, scratch: Path) -> Adapter:
    del engine
    return SailAdapter(scratch)
