"""What is published of a version, made and signed: `python setup/release.py --key ~/.ssh/id_ed25519`

    dist/ronda-VERSION-py3-none-any.whl, ronda-VERSION.tar.gz      the packages, with the page inside
    dist/ronda-VERSION.cdx.json       which packages of others they are used with (SBOM, CycloneDX 1.6)
    dist/SHA256SUMS, SHA256SUMS.sig   their hashes, and the signature of these by a key of this machine
    dist/allowed_signers              the public half of the key, as `ssh-keygen -Y verify` wants it

Nothing leaves the machine: RELEASING.md says what is done with them. OpenSSH signs: a maintainer has it already, and a key.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "src/ronda/server/doors/page/build/index.html"
SIGNER, NAMESPACE = "ronda-release", "file"  # the second is what OpenSSH signs files under
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Failed(Exception):
    """A step that did not go as it should."""


def main() -> int:
    asked = _arguments()
    try:
        made = release(Path(asked.out), Path(asked.key).expanduser(), allow_dirty=asked.allow_dirty)
    except Failed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    for path in made:
        print(path)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="setup/release.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--key", required=True, metavar="FILE", help="a private key of OpenSSH")
    parser.add_argument("--out", default=str(ROOT / "dist"), metavar="DIR", help="where it is written (default dist/)")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="although files were changed, or the page is missing: to try it"
    )
    return parser.parse_args()


def release(out: Path, key: Path, *, allow_dirty: bool = False) -> list[Path]:
    version = _version()
    if not allow_dirty:
        _check(version)
    if not key.is_file():
        raise Failed(f"there is no key {key}")
    if out.exists() and any(out.iterdir()):
        raise Failed(f"{out} is not empty: remove what is in it first")
    out.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "hatchling", "build", "--directory", str(out))
    sbom = out / f"ronda-{version}.cdx.json"
    sbom.write_text(json.dumps(bill_of_materials(version), indent=2) + "\n")
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in sorted(out.iterdir())))
    _run("ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(sums))
    public = _run("ssh-keygen", "-y", "-f", str(key)).split()
    (out / "allowed_signers").write_text(f'{SIGNER} namespaces="{NAMESPACE}" {public[0]} {public[1]}\n')
    return sorted(out.iterdir())


def _version() -> str:
    found = re.search(r'"(.+)"', (ROOT / "src/ronda/_version.py").read_text())
    assert found is not None
    return found.group(1)


def _check(version: str) -> None:
    if _run("git", "status", "--porcelain"):
        raise Failed("files were changed: commit them first")
    if not re.search(rf"^## \[?{re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise Failed(f"CHANGELOG.md has no section '## {version}'")
    if not PAGE.is_file():
        raise Failed("the page is not built: 'make setup' builds it")


def _run(*command: str) -> str:
    # Of the commit, and not of now: who builds the same commit gets the same bytes.
    stamp = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    environ = {**os.environ, "SOURCE_DATE_EPOCH": stamp.stdout.strip() or "0"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environ)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:4])} …: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- the bill of materials ----------------------------------------------------------------------------------------------


def bill_of_materials(version: str) -> dict[str, Any]:
    """Written by hand: the lock files say all of it (names, versions, hashes), and the generators on PyPI would bring a dozen
    packages to read them."""
    components = [*_python_packages(), *_npm_packages()]
    name = f"ronda {version} {json.dumps(components, sort_keys=True)}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "ronda",
                "name": "ronda",
                "version": version,
                "purl": f"pkg:pypi/ronda@{version}",
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": "ronda", "dependsOn": [one["bom-ref"] for one in components]}],
    }


def _python_packages() -> Iterator[dict[str, Any]]:
    """Those that all extras need. A package has several files, one for each platform: their hashes stand as properties."""
    for line in re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip()):
        if found := _PACKAGE.match(line):
            name, version = found.groups()
            yield _component("pypi", name, version, _HASH.findall(line))


def _npm_packages() -> Iterator[dict[str, Any]]:
    """Those that are in the page."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    for path, one in sorted(lock["packages"].items()):
        if path and not one.get("dev") and not one.get("optional"):
            yield _component("npm", path.rpartition("node_modules/")[2], one["version"], [])


def _component(kind: str, name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    purl = f"pkg:{kind}/{name.replace('@', '%40')}@{version}"
    made: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if hashes:
        made["properties"] = [{"name": "sha256", "value": value} for value in hashes]
    return made


def verify(folder: Path) -> None:
    """What a person does who downloaded it: the signature, then the hashes."""
    with tempfile.TemporaryFile() as sums:
        sums.write((folder / "SHA256SUMS").read_bytes())
        sums.seek(0)
        command = [
            "ssh-keygen",
            "-Y",
            "verify",
            "-f",
            "allowed_signers",
            "-I",
            SIGNER,
            "-n",
            NAMESPACE,
            "-s",
            "SHA256SUMS.sig",
        ]
        done = subprocess.run(command, cwd=folder, stdin=sums, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"the signature is wrong: {done.stderr.strip() or done.stdout.strip()}")
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        value, _, name = line.partition("  ")
        if _sha256(folder / name) != value:
            raise Failed(f"{name} is not what was signed")


if __name__ == "__main__":
    sys.exit(main())
