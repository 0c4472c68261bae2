"""Compiled kernels: compiled offline for any GPU, read, evaluated over the grid, and priced."""
