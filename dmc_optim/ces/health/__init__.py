"""Health of the service: windows and bursts, sentinels and service-state epochs (paper C.5, C.12)."""
