"""What all tests share: Hypothesis without a clock, since a slow machine is not a bug."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ronda", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("ronda")
