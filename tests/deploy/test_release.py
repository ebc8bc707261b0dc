"""What a release is made of: packages, a bill of materials, hashes, and a signature that a changed file breaks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from setup import release

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no OpenSSH here")
def test_a_release_is_signed_and_a_changed_file_is_found(tmp_path: Path) -> None:
    key, out = tmp_path / "key", tmp_path / "dist"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)

    made = release.release(out, key, allow_dirty=True)

    names = [path.name for path in made]
    (wheel,) = [path for path in made if path.suffix == ".whl"]
    assert {"SHA256SUMS", "SHA256SUMS.sig", "allowed_signers"} <= set(names)
    assert [name for name in names if name.endswith((".tar.gz", ".cdx.json"))] != []
    assert {"ronda/evals/judge.prompty", "ronda/py.typed"} <= set(zipfile.ZipFile(wheel).namelist())
    release.verify(out)

    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(release.Failed, match="is not what was signed"):
        release.verify(out)
    (out / "SHA256SUMS").write_text("")
    with pytest.raises(release.Failed, match="the signature is wrong"):
        release.verify(out)


def test_the_bill_of_materials_has_every_package_of_the_lock_file() -> None:
    bill = release.bill_of_materials("1.0.0")

    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    listed = {one["name"] for one in bill["components"] if one["purl"].startswith("pkg:pypi/")}
    assert listed == locked
    refs = [one["bom-ref"] for one in bill["components"]]
    assert len(refs) == len(set(refs))
    assert bill["dependencies"] == [{"ref": "ronda", "dependsOn": refs}]
    page = json.loads((ROOT / "web/package.json").read_text())["dependencies"]
    assert set(page) <= {one["name"] for one in bill["components"] if one["purl"].startswith("pkg:npm/")}
    assert json.dumps(bill) == json.dumps(release.bill_of_materials("1.0.0"))
