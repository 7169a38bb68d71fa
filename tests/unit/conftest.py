"""Properties are tried on the same examples each time, so that a slow or busy machine makes no difference."""

from hypothesis import HealthCheck, settings

settings.register_profile("unit", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")
