"""Known addresses of CDNs → files of packages that are here, so that pages of the usual stacks are not bare without a network.

Whatever version a page names, it gets the one that is here: a preview wants to look right, not to be exact. Nothing here knows
which packages there are; it looks.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from ronda.tools.page.browser import Response

_PACKAGE: Final = r"(?P<name>(?:@[\w.-]+/)?[\w.-]+)"
_VERSION: Final = r"(?:@[\w.^~-]+)?"
# (hosts, path): a package's own path on each of the CDNs that serve npm.
_NPM: Final = tuple(
    (hosts, re.compile(path))
    for hosts, path in (
        (("cdn.jsdelivr.net", "fastly.jsdelivr.net"), rf"/npm/{_PACKAGE}{_VERSION}(?:/(?P<path>.*))?"),
        (("unpkg.com",), rf"/{_PACKAGE}{_VERSION}(?:/(?P<path>.*))?"),
        (("",), rf"/{_PACKAGE}/\d[\w.-]*/files/(?P<path>.*)"),  # mirrors of npm that serve files, on any host
    )
)
# What a CDN with names of its own calls a package, and where its files are in it.
_LIBRARIES: Final = {
    "babel-standalone": ("@babel/standalone", ""),
    "bootstrap": ("bootstrap", "dist"),
    "bootstrap-icons": ("bootstrap-icons", ""),
    "font-awesome": ("@fortawesome/fontawesome-free", ""),
    "jquery": ("jquery", "dist"),
    "react": ("react", ""),
    "react-dom": ("react-dom", ""),
    "vue": ("vue", "dist"),
}
_LIBRARY: Final = re.compile(r"/ajax/libs/(?P<name>[\w.-]+)/[\w.-]+/(?P<path>.+)")
# What a package is without a path: npm calls it by the names of its bundles.
_WHOLE: Final = {
    "@babel/standalone": "babel.min.js",
    "@tailwindcss/browser": "dist/index.global.js",
    "bootstrap": "dist/js/bootstrap.min.js",
    "jquery": "dist/jquery.min.js",
    "react": "umd/react.development.js",
    "react-dom": "umd/react-dom.development.js",
    "vue": "dist/vue.global.js",
}
_JQUERY: Final = re.compile(r"/jquery-[\d.]+?(?P<kind>(?:\.slim)?(?:\.min)?)\.js")
_FONTS: Final = re.compile(r"url\(\./files/")
_WEIGHTS: Final = (300, 400, 500, 600, 700, 800)


class Cdn:
    """The packages in a folder, as their CDNs would serve them. Reads files: for a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, url: str) -> Response | None:
        parts = urlsplit(url)
        host, path = parts.hostname or "", unquote(parts.path)
        match host:
            case "cdn.tailwindcss.com":
                kind = "-with-all-plugins" if "plugins=" in parts.query else ""
                return self._file("tailwindcss-cdn", f"tailwindcss{kind}.js")
            case "code.jquery.com" if found := _JQUERY.fullmatch(path):
                return self._file("jquery", f"dist/jquery{found['kind']}.js")
            case "cdnjs.cloudflare.com" if found := _LIBRARY.fullmatch(path):
                package, folder = _LIBRARIES.get(found["name"], (found["name"], ""))
                return self._file(package, str(PurePosixPath(folder, found["path"])))
            case "fonts.googleapis.com":
                return self._fonts(parts.query)
            case _:
                return self._package(host, path)

    def _package(self, host: str, path: str) -> Response | None:
        for hosts, pattern in _NPM:
            if (host in hosts or "" in hosts) and (found := pattern.fullmatch(path)):
                name = str(found["name"])
                return self._file(name, found["path"] or _WHOLE.get(name, ""))
        return None

    def _file(self, package: str, path: str) -> Response | None:
        for place in self._places(package, path):
            if place.is_file():
                kind = mimetypes.guess_type(place.name)[0] or "application/octet-stream"
                return Response(place.read_bytes(), kind)
        return None

    def _places(self, package: str, path: str) -> Iterator[Path]:
        """The file, and the same unminified or minified: packages differ in which of them they have."""
        parts = PurePosixPath(path).parts
        if not parts or any(part in ("..", "/") or part.startswith(".") for part in (*parts, package)):
            return
        root = self._folder / package
        yield root.joinpath(*parts)
        stem, dot, ending = parts[-1].rpartition(".")
        if dot:
            other = stem.removesuffix(".min") if stem.endswith(".min") else f"{stem}.min"
            yield root.joinpath(*parts[:-1], f"{other}.{ending}")
        else:  # `/npm/vue@3/dist/vue.global` and the like
            yield root.joinpath(*parts[:-1], f"{parts[-1]}.js")

    def _fonts(self, query: str) -> Response:
        """Families that are not here are left to the fonts of the machine: they get an empty answer."""
        styles: list[str] = []
        for family in parse_qs(query).get("family", []):
            for each in family.split("|"):
                name = each.partition(":")[0].strip().lower().replace(" ", "-")
                if re.fullmatch(r"[a-z-]+", name):
                    styles += self._family(name)
        return Response("\n".join(styles).encode(), "text/css")

    def _family(self, name: str) -> Iterator[str]:
        package = f"@fontsource/{name}"
        for weight in _WEIGHTS:
            found = self._file(package, f"latin-{weight}.css")
            if found is not None:
                yield _FONTS.sub(f"url(https://cdn.jsdelivr.net/npm/{package}/files/", found.body.decode())
