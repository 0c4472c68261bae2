"""Kernels on a device, in the order in which a hint comes by: `render` makes a program of it, `compile` a binary; a
`session` is one device under measurement, in whose process a `worker` runs, checks (`check`) and times candidates on
their `inputs`; `bench` takes them in rounds, `records` keeps and `report` shows what was measured.

`device` and `cuda` are the devices, `buffers` their memory. `spec` is a kernel of the user's own, `built` one to call.
"""
