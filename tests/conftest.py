"""What all tests share: Hypothesis without a clock, since a slow machine is not a bug; and a way to `tests.…`."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests.…` is found however pytest is started

settings.register_profile(
    "ronda", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("ronda")
