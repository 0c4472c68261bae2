"""Kernels on a device: rendered, compiled, launched, checked, timed, recorded."""
