"""The cost model: the demands of a candidate on the device, and the time that they take."""
