"""Measured tables (`tables`) and how good rankings of them are (`summary`); constants measured by microbenchmarks
(`micro`) or fitted to a table (`fitting`), and both for the device of this machine (`device`).

docs/howto/calibration.md is the guide.
"""
