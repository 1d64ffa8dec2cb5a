"""How fast is Ebbtide, beside something that does the same work on the same bytes in the same run?

`python -m bench [--quick] [names...]`. A workload is a file in `bench/workloads`; adding one is adding a file there.
"""
