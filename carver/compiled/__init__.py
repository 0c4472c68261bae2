"""Compiled kernels: compiled offline for any GPU, read, and evaluated over the grid."""
