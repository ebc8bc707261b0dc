"""A report → JUnit's XML, which CI servers show: a suite for each prompt and model, a test case for each attempt."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree

from ronda.evals.report import AttemptResult, EvalReport

_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(report: EvalReport) -> str:
    root = ElementTree.Element("testsuites", name=_text(report.file))
    for variant in report.variants:
        own = [one for one in report.attempts if (one.prompt, one.model) == (variant.prompt, variant.model)]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_text(f"{variant.prompt} · {variant.model}"),
            tests=str(len(own)),
            failures=str(variant.failed),
            errors=str(variant.errors),
            skipped=str(variant.not_run),
            time=f"{sum(one.seconds for one in own):.3f}",
        )
        for attempt in own:
            _add(suite, attempt, variant.attempts > variant.cases)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add(suite: ElementTree.Element, attempt: AttemptResult, is_repeated: bool) -> None:
    name = f"{attempt.case} [{attempt.repeat + 1}]" if is_repeated else attempt.case
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_text(f"{attempt.prompt}.{attempt.model}"),
        name=_text(name),
        time=f"{attempt.seconds:.3f}",
    )
    words = {"failed": "failure", "error": "error", "not_run": "skipped"}
    if attempt.status in words:
        reasons = attempt.reasons
        found = ElementTree.SubElement(case, words[attempt.status], message=_text(reasons[0] if reasons else ""))
        found.text = _text("\n".join(reasons))
    if attempt.answer:
        ElementTree.SubElement(case, "system-out").text = _text(attempt.answer)


def _text(text: str) -> str:
    """Without the characters that XML cannot say."""
    return _NOT_XML.sub("\ufffd", text)
