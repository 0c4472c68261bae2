"""Kernels on a device. The way of a hint: `render` makes a program of it, `compile` a binary; a `session` has a process
on a device, where a `worker` runs, checks (`check`) and times candidates on their `inputs`; `bench` takes them in
rounds, `records` keeps and `report` shows what was measured.

`device` and `cuda` are the devices, `buffers` their memory. `spec` is a kernel of the user's own, `built` one to call.
"""
