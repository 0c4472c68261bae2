"""Kernel declarations, the expressions in them, and the space of candidates they span."""
