"""The text of a document, told by a program of its own: `document.py FILE KIND PACKAGES` writes it to stdout, as UTF-8.

Run as a text by the Python inside a sandbox, whichever that is: it imports nothing of ours, and no package but those in the zip
PACKAGES. So Word and HTML are read by hand, for what reads them well is compiled for one Python. What reads these formats is made
for files of good will; here a hostile one can hurt only itself. Status 3: a package is missing, which stderr names.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

_MOST = 2_000_000  # characters
_MOST_PAGES = 500
_MOST_ROWS = 20_000  # of one sheet
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def main() -> None:
    name, kind, packages = sys.argv[1:4]
    sys.path.insert(0, packages)
    left = _MOST
    try:
        for piece in _READERS[kind](name):
            sys.stdout.buffer.write(piece[:left].encode("utf-8", "replace"))
            left -= len(piece)
            if left <= 0:
                break
    except ImportError as error:
        sys.stderr.write(str(error.name or error))
        sys.exit(3)


def _pdf(name: str) -> Iterator[str]:
    from pypdf import PdfReader

    for number, page in enumerate(PdfReader(name).pages[:_MOST_PAGES], 1):
        yield f"[page {number}]\n{page.extract_text().strip()}\n\n"


def _docx(name: str) -> Iterator[str]:
    with zipfile.ZipFile(name) as archive:
        body = ElementTree.fromstring(archive.read("word/document.xml")).find(_WORD + "body")
    for block in [] if body is None else body:
        if block.tag == _WORD + "tbl":
            for row in block.iter(_WORD + "tr"):
                yield "\t".join([_words(cell) for cell in row.iter(_WORD + "tc")]) + "\n"
        else:
            yield _words(block) + "\n"


def _words(block: Any) -> str:
    signs = {_WORD + "tab": "\t", _WORD + "br": "\n", _WORD + "p": " "}
    found = [one.text or "" if one.tag == _WORD + "t" else signs.get(one.tag, "") for one in block.iter()]
    return "".join(found).strip()


def _xlsx(name: str) -> Iterator[str]:
    import openpyxl

    book: Any = openpyxl.load_workbook(name, read_only=True, data_only=True)
    for sheet in book.worksheets:
        yield f"[sheet {sheet.title}]\n"
        for number, row in enumerate(sheet.iter_rows(values_only=True)):
            if number >= _MOST_ROWS:
                yield "…\n"
                break
            yield ",".join(["" if value is None else _cell(value) for value in row]) + "\n"
        yield "\n"


def _cell(value: object) -> str:
    text = str(value)
    quote = chr(34)
    return quote + text.replace(quote, quote * 2) + quote if any(sign in text for sign in (",", quote, "\n")) else text


class _Words(HTMLParser):
    """What a reader of the page sees of it, roughly: a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in ("script", "style", "head", "template", "noscript")
        if tag in _BLOCKS:
            self.pieces.append("\n")
        elif tag in ("td", "th"):
            self.pieces.append("\t")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= self._hidden > 0 and tag in ("script", "style", "head", "template", "noscript")
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(" ".join(data.split()) + (" " if data[-1:].isspace() else ""))


_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure", "footer", "form", "header"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "tr", "ul"}
)


def _html(name: str) -> Iterator[str]:
    with open(name, encoding="utf-8-sig", errors="replace") as file:
        source = file.read(_MOST * 4)
    words = _Words()
    words.feed(source)
    words.close()
    lines = [line.strip(" ") for line in "".join(words.pieces).split("\n")]
    yield "\n".join([line for line in lines if line.strip()])


_READERS = {"pdf": _pdf, "docx": _docx, "xlsx": _xlsx, "html": _html}

if __name__ == "__main__":
    main()
