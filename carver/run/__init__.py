"""Kernels on a device: render, compile, launch, check, time, record."""
