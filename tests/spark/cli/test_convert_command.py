"""Does `ebbtide convert` make a table of a folder, look first when asked, and say why it cannot?"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.log_reading import commit_info, log_state

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path):
    for part in ("1", "2"):
        (tmp_path / "f" / f"p={part}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(part)]}), tmp_path / "f" / f"p={part}" / "x.parquet")
    return tmp_path / "f"


@pytest.mark.one_kind("the command starts or finds its session as every other command does")
def test_folder_is_looked_at_and_then_converted(spark, folder):
    looked = ebbtide("convert", folder, "--partitioned-by", "p INT", "--dry-run")
    assert "A dry run: nothing was written." in looked.stdout
    assert "id, p" in looked.stdout
    assert not (folder / "_delta_log").exists()
    [answer] = json_lines(ebbtide("convert", folder, "--partitioned-by", "p INT", "--no-statistics", "--json"))
    assert (answer["version"], answer["numConvertedFiles"], answer["partitionColumns"]) == (0, 2, ["p"])
    assert commit_info(folder, 0)["operationParameters"]["collectStats"] is False
    again = ebbtide("convert", folder)
    assert "is a Delta table already" in again.stdout
    assert log_state(folder).version == 0


@pytest.mark.one_kind("refused before Spark reads a file")
def test_folder_whose_partitions_are_not_named_is_refused(spark, folder):
    result = ebbtide("convert", folder)
    assert (result.exit_code, "PARTITIONED BY (p STRING)" in result.stderr) == (2, True)
    assert not (folder / "_delta_log").exists()
