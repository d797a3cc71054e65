"""Calibration of stored durations: campaign, fits, noise, correction at load (paper C.7-C.10)."""
