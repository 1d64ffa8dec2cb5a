"""An engine without a table, for `test_remote.py`: it remembers what it was asked."""

from __future__ import annotations

import os

import pyarrow as pa


class SmallEngine:
    offers = frozenset({"append"})

    def __init__(self):
        self.asked = []

    def version(self):
        return "1"

    def run(self, path, step):
        print("noise on the standard output")
        if step.kind == "restore":
            raise ValueError("no restore")
        if step.kind == "vacuum":
            os._exit(3)
        self.asked.append({"path": path, "kind": step.kind})

    def read(self, path):
        return pa.Table.from_pylist(self.asked)

    def close(self):
        pass
