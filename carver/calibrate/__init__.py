"""Constants measured on a device, or fitted to a table of measured times. See docs/calibration.md."""
