"""How fast is Ebbtide beside the engines that people use today: the same bytes, one machine, one run?

`python -m bench.peers [workload ...] [--short]`. Every engine runs in a process of its own (`worker`), which is told
what to do in lines of JSON (`client`). A workload is a file in `bench/peers/workloads`, an engine a file in
`bench/peers/adapters`.
"""
