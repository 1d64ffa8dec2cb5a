"""Where is Spark's S3 connector? Fetches Hadoop's with Maven, once, and keeps what S3 needs of it.

    python3 scripts/connector_jars.py build/connector

Which release that is stands in tests/connector/pom.xml. Where Maven finds it is Maven's own configuration and is never
said here. The AWS bundle has the clients of all services and is hundreds of megabytes large; only those that S3A calls
are kept. Ends with 0 when the JARs are there, and with 75 ("try again later") and one sentence when they cannot be had.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

POM = Path("tests/connector/pom.xml")
STAMP = "wanted.sha256"
NOT_NOW = 75
ARTIFACTS = "hadoop-aws,bundle,analyticsaccelerator-s3"
# S3A reads and writes with the first, and asks the others for temporary credentials and for keys.
KEPT_SERVICES = frozenset({"s3", "sts", "kms"})
_OF_A_SERVICE = re.compile(r"software/amazon/awssdk/services/([^/]+)/|codegen-resources/([^/]+)/")


def is_needed(entry: str) -> bool:
    """Whether an entry of the AWS bundle belongs to no service, or to one that S3A calls."""
    found = _OF_A_SERVICE.match(entry)
    return found is None or (found[1] or found[2]) in KEPT_SERVICES


def slim(bundle: Path, target: Path) -> None:
    with ZipFile(bundle) as whole, ZipFile(target, "w", ZIP_DEFLATED, compresslevel=1) as kept:
        for entry in whole.infolist():
            if not entry.is_dir() and is_needed(entry.filename):
                kept.writestr(entry.filename, whole.read(entry))


def fetch(target: Path) -> str | None:
    """Why it did not work; None when it did."""
    if shutil.which("mvn") is None:
        return "is fetched with Maven, and there is no `mvn` on the PATH."
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as fetched:
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(POM), "dependency:copy-dependencies"]
        command += [f"-DincludeArtifactIds={ARTIFACTS}", f"-DoutputDirectory={Path(fetched).absolute()}"]
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            return "could not be downloaded by Maven (no network?); its own words are above."
        for jar in Path(fetched).glob("*.jar"):
            if jar.name.startswith("bundle-"):
                slim(jar, target / jar.name)
            else:
                shutil.move(jar, target / jar.name)
    return None if any(target.glob("hadoop-aws-*.jar")) else "was not among what Maven downloaded."


def main(arguments: Sequence[str]) -> int:
    target = Path(arguments[0])
    wanted = hashlib.sha256(POM.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    stamp = target / STAMP
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return 0
    reason = fetch(target)
    if reason is not None:
        print(f"connector: Spark's S3 connector {reason}", file=sys.stderr)
        return NOT_NOW
    stamp.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
