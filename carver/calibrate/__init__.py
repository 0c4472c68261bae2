"""Measured tables and how good rankings of them are; constants measured on a device, or fitted to such a table. See
docs/howto/calibration.md."""
