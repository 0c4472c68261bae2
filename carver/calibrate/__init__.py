"""Constants measured on a device, or fitted to a table of measured times. See docs/howto/calibration.md."""
