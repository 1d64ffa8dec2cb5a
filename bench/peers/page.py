"""How are the results of `make bench-peers` shown? The first part of `docs/benchmarks.md`, and its plots."""

from __future__ import annotations

import statistics
from typing import Any

from bench.peers import workloads
from bench.peers.engines import ALL, EBBTIDE
from bench.peers.measure import Case, Measurement
from bench.peers.plot import svg

__all__ = ["markdown", "plots"]

MIB = 1024 * 1024
HEADING = """## Ebbtide beside other engines

Every engine works on the same bytes, made from a seed, in a process of its own. **Start** is the time until that
process is ready (interpreter, imports, session). **Cold** is its first command. **Warm** is the median of the later
runs, in which the engines take turns, with the smallest and the largest beside it. The **ratio** is an engine's
warm time to Ebbtide's: above 1, Ebbtide is quicker. **Memory** is the peak resident memory of all runs, cold and
warm: Python / the process it started (a JVM, whose heap may be 4 GiB and does not shrink, or a server).
**Written** is what one run left in the table's directory, log included. The files were in the system's
cache: no engine waited for a disk.
"""
SETTINGS = (
    "Both Sparks have `local[2]`, 4 GiB and 4 shuffle partitions; delta-spark replays its log in 4 partitions instead "
    "of 50 and lists the files of a VACUUM in 4 tasks instead of 10,000: both are meant for a cluster. "
    "Everything else is each engine's default."
)


def plots(results: dict[str, Any]) -> dict[str, str]:
    """The files of the plots, by name."""
    return {f"peers-{name}.svg": svg(result["title"], _cases(result)) for name, result in _ordered(results)}


def markdown(results: dict[str, Any], *, plots_at: str) -> str:
    """This part of the page, from the results alone; `plots_at` is where the plots are."""
    # Without results there is nothing to say, least of all that nobody is quicker.
    sections = [HEADING, *([_engines(results), _slower(results)] if results else [])]
    sections += [_section(name, result, plots_at) for name, result in _ordered(results)]
    left_out = [name for name in workloads.NAMES if name not in results]
    if left_out:
        sections.append(f"### Not measured\n\nThese workloads have no result yet: {', '.join(left_out)}.\n")
    return "\n".join(sections)


def _ordered(results: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, results[name]) for name in workloads.NAMES if name in results]


def _cases(result: dict[str, Any]) -> list[Case]:
    return [Case.from_json(each) for each in result["cases"]]


# --- the engines ------------------------------------------------------------------------------------------------------


def _engines(results: dict[str, Any]) -> str:
    versions: dict[str, dict[str, str]] = {}
    missing: dict[str, str] = {}
    for _, result in _ordered(results):
        versions |= result["engines"]
        missing |= result["missing"]
    lines = ["### The engines", ""]
    for engine in ALL:
        if engine.name in versions:
            packages = ", ".join(f"{package} {found}" for package, found in versions[engine.name].items())
            lines.append(f"- **{engine.name}**: {engine.about} ({packages})")
        elif engine.name in missing:
            lines.append(f"- **{engine.name}** took no part: {missing[engine.name]}.")
    return "\n".join([*lines, "", SETTINGS, ""])


# --- where we are behind ----------------------------------------------------------------------------------------------


WHY_SLOWER = """\
Ebbtide asks Spark, and a Spark query takes 0.1 to 0.2 s before it reads its first row: Python hands the query to the
JVM, which plans it, generates code and starts a job. A DELETE is one such query, an UPDATE two, a MERGE three. Sail and
deltalake are native code in one process and have none of that, so they win where there is little to read. Sail also
marks rows instead of rewriting files and decodes Parquet in vectors from end to end, where Spark goes row by row after
the scan; so it stays ahead on large tables too, on one machine. deltalake falls behind as soon as the files that it
has to rewrite are large.

Maintenance is the same story. A compaction by Spark opens each small file in a millisecond or two, and takes rows out
of columns and puts them back into columns; deltalake moves batches of columns. VACUUM and RESTORE start no Spark job in
Ebbtide, but on a local disk, where a request costs nothing, what is left is Python that looks at one name after the
other. On an object store their time is that of the requests.
"""


def _slower(results: dict[str, Any]) -> str:
    lines = [
        "### Where Ebbtide is slower",
        "",
        WHY_SLOWER,
        "All cases in which another engine's median is lower:",
        "",
    ]
    found = [
        f"- {result['title']}; {case.label}: {line}"
        for _, result in _ordered(results)
        for case in _cases(result)
        if (line := _quicker(case))
    ]
    return "\n".join([*lines, *(found or ["- nowhere."]), ""])


def _quicker(case: Case) -> str:
    """Who was quicker than Ebbtide, and how much."""
    ours = case.of(EBBTIDE.name)
    if ours is None or ours.median is None:
        return ""
    others = [(each.median, each.engine) for each in case.measurements if each.median and each.median < ours.median]
    quicker = [f"{engine} {median:.3f} s, {ours.median / median:.2f} times" for median, engine in sorted(others)]
    return f"Ebbtide {ours.median:.3f} s; {'; '.join(quicker)}" if quicker else ""


# --- one workload -----------------------------------------------------------------------------------------------------


def _section(name: str, result: dict[str, Any], plots_at: str) -> str:
    cases = _cases(result)
    run = result["run"]
    place = f"{run['cpu']}, {run['cores']} cores, {run['memory_gib']} GiB, {run['system']}, Python {run['python']}"
    made = f"`{run['command']}` (workload `{name}`), {run['date']}, on {place}.{_reservations(run)}"
    troubles = [
        f"- {case.label}, {each.engine}: {_first_line(each)}"
        for case in cases
        for each in case.measurements
        if each.trouble
    ]
    plot = f"![{result['title']}]({plots_at}/peers-{name}.svg)"
    parts = [f"### {result['title']}", result["about"], plot, "\n".join(_table(cases))]
    if troubles:
        parts.append("What did not work:\n\n" + "\n".join(troubles))
    return "\n\n".join([*parts, made]) + "\n"


def _reservations(run: dict[str, Any]) -> str:
    """Why the numbers may not be what the title says."""
    size = "" if run["scale"] == 1 else f" Made with a {run['scale']}th of the data."
    if run["load"] < 0.5:
        return size
    return (
        f"{size} **Other work ran on the machine** ({run['load']} cores were busy when it began): the seconds are too "
        "large and the ratios uncertain until it is run again on a quiet one."
    )


def _first_line(result: Measurement) -> str:
    line = (result.trouble or "").strip().splitlines()[0]
    return line if len(line) <= 200 else line[:200] + " ..."


def _table(cases: list[Case]) -> list[str]:
    """One line per engine and case; columns that would be empty throughout are left out."""
    rows = [_cells(case, each) for case in cases for each in case.measurements]
    heads = [head for head in rows[0] if any(row[head] for row in rows)]
    widths = {head: max(len(head), *(len(row[head]) for row in rows)) for head in heads}
    lines = [{head: head for head in heads}, {head: "-" * widths[head] for head in heads}, *rows]
    return ["| " + " | ".join(line[head].ljust(widths[head]) for head in heads) + " |" for line in lines]


def _ratio(case: Case, result: Measurement) -> str:
    ours = case.of(EBBTIDE.name)
    if ours is None or ours.median is None or result.median is None:
        return ""
    return _factor(result.median / ours.median)


def _factor(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _spread(result: Measurement) -> str:
    if result.median is None:
        return ""
    return f"{min(result.warm_seconds):.3f} to {max(result.warm_seconds):.3f} ({len(result.warm_seconds)})"


def _memory(result: Measurement) -> str:
    if result.driver_bytes is None:
        return ""
    more = f" / {result.worker_bytes / MIB:.0f}" if result.worker_bytes else ""
    return f"{result.driver_bytes / MIB:.0f}{more} MiB"


def _written(result: Measurement) -> str:
    if not result.written_bytes or result.trouble:
        return ""
    small = result.written_bytes < MIB
    return f"{result.written_bytes / 1024:.1f} KiB" if small else f"{result.written_bytes / MIB:.1f} MiB"


def _rate(result: Measurement) -> str:
    """Commits per second of the median run; the numbers in `extra` are sums over all runs, the cold one too."""
    if "landed" not in result.extra or not result.median:
        return ""
    return f"{result.extra['landed'] / _runs(result) / result.median:.1f}"


def _aborts(result: Measurement) -> str:
    return f"{result.extra['aborts'] / _runs(result):.0f}" if "aborts" in result.extra else ""


def _runs(result: Measurement) -> int:
    return len(result.warm_seconds) + 1


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _cells(case: Case, each: Measurement) -> dict[str, str]:
    undeleted = statistics.median(each.undeleted_seconds) if each.undeleted_seconds else None
    return {
        "what": case.label,
        "engine": each.engine,
        "start": _seconds(each.start_seconds),
        "cold": _seconds(each.cold_seconds),
        "undeleted": _seconds(undeleted),
        "warm": _seconds(each.median) or "could not",
        "spread (runs)": _spread(each),
        "overhead": "" if each.overhead is None else f"{each.overhead:.2f}",
        "seconds more": "" if undeleted is None or each.median is None else f"{each.median - undeleted:+.3f}",
        "ratio": _ratio(case, each),
        "commits per second": _rate(each),
        "aborts": _aborts(each),
        "Spark jobs": "" if each.jobs is None else str(each.jobs),
        "requests": "" if each.requests is None else f"{each.requests:,}",
        "memory": _memory(each),
        "written": _written(each),
    }
