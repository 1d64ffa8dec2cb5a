"""How fast is it, beside what people would use instead, on this machine, in this run?

`python -m bench` (`make bench`) runs the workloads, prints a table for each, and writes `bench/results.json` and
`docs/benchmarks.md`. Machines are noisy: every number that matters is a ratio between things measured in turns in one
run. A workload is a module with a function `run(context) -> Workload`; `__main__` lists them.
"""
