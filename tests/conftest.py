"""What all tests share: Hypothesis without a clock, since a slow machine is not a bug; no certificates; a way to `tests.…`."""

import gc
import os
import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests.…` is found however pytest is started

# Every client of an SDK would read the system's certificates, 30 ms for each, and none here goes beyond this machine. A folder
# without any is read at once.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# What this process ignores (SIGHUP under nohup, SIGINT behind a shell's &) every program that a test starts would ignore too.
# What it handles is at its default again in them; and here doing nothing is to ignore it still.
for _which in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_which) is signal.SIG_IGN:
        signal.signal(_which, lambda *_: None)

settings.register_profile(
    "ronda", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("ronda")


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector need not go through it again and again, least of all in the tests
    that ask for it."""
    gc.collect()
    gc.freeze()
