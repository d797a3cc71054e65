"""Settings shared by every test."""

from hypothesis import HealthCheck, settings

# A shared machine may stall for a second at any moment: no property test depends on how fast one example ran.
settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")
