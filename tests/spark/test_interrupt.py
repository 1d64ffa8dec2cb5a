"""Does Ctrl-C stop a command, and leave the table as it was?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

WORKER = Path(__file__).parents[1] / "support" / "interrupted_delete.py"
PATIENCE_SECONDS = 240


def test_interrupt_during_a_search_is_a_keyboard_interrupt_and_leaves_nothing_behind(spark_kind, tmp_path):
    worker = subprocess.Popen(
        [sys.executable, str(WORKER), spark_kind, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (tmp_path / "searching").exists():
            assert worker.poll() is None, "the process ended before its search began"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        worker.send_signal(signal.SIGINT)
        output, _ = worker.communicate(timeout=PATIENCE_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
    assert json.loads(output.splitlines()[-1]) == {
        "raised": "KeyboardInterrupt",
        "left behind": [],
        "rows": list(range(10)),
        "version": 0,
    }
