"""`expect` and `assert` of a case → its checks. `expect` is the short form, a mapping; `assert` is promptfoo's, a list."""

from __future__ import annotations

from typing import Any, Final

from ronda._suggest import did_you_mean
from ronda.evals.check_kinds import KINDS
from ronda.evals.files import SuiteFiles
from ronda.evals.promptfoo import CHECKS, UNSUPPORTED_CHECK_KEYS, UNSUPPORTED_CHECKS
from ronda.evals.read_models import read_model
from ronda.evals.shapes import refuse_unknown
from ronda.evals.suite import Check, Judge
from ronda.prompty.report import At

_TOOLS: Final = {
    "used": "tool-used",
    "never": "tool-never",
    "order": "tool-order",
    "count": "tool-count",
    "arguments": "tool-arguments",
}
_CHECK_KEYS: Final = ("type", "value", "threshold", "weight", "provider", "metric")


class CheckReader:
    """Knows the suite's files and its judge."""

    def __init__(self, files: SuiteFiles, judge: Judge) -> None:
        self._files = files
        self._judge = judge

    def read(self, case: At) -> tuple[Check, ...]:
        return (*self._expected(case["expect"]), *self._asserted(case["assert"]))

    # ---- expect -----------------------------------------------------------------------------------------------------------

    def _expected(self, expect: At) -> list[Check]:
        if not expect.is_given:
            return []
        if isinstance(expect.value, str):
            return [Check("contains", expect.value)]
        if not expect.is_mapping():
            return []
        checks: list[Check] = []
        for name, item in expect.fields():
            if name == "tools":
                refuse_unknown(item, tuple(_TOOLS))
                if item.is_mapping():
                    checks += [self._check(_TOOLS[key], one) for key, one in item.fields() if key in _TOOLS]
            elif name in ("contains", "not-contains", "icontains", "not-icontains") and isinstance(item.value, list):
                # None of them may be there, or all of them must be.
                how = "any" if name.startswith("not-") else "all"
                checks.append(self._check(f"{name}-{how}", item))
            elif name in ("judge", "not-judge", "llm-rubric") and isinstance(item.value, list):
                checks += [self._check(name, one) for one in item.items()]
            else:
                checks.append(self._check(name, item))
        return [check for check in checks if check.kind]

    # ---- assert -----------------------------------------------------------------------------------------------------------

    def _asserted(self, listed: At) -> list[Check]:
        if listed.is_given and not isinstance(listed.value, list):
            listed.problem("a list of checks, - type: …, is needed here")
            return []
        checks: list[Check] = []
        for item in listed.items():
            if not item.is_mapping():
                continue
            refuse_unknown(item, _CHECK_KEYS, UNSUPPORTED_CHECK_KEYS)
            if not item["type"].is_given:
                item.problem("'type' says which check it is")
                continue
            weight, threshold = item["weight"].number(), item["threshold"].number()
            check = self._check(
                item["type"].text(),
                item["value"],
                where=item["type"],
                threshold=threshold,
                weight=1.0 if weight is None else weight,
                provider=item["provider"],
            )
            checks.append(check)
        return [check for check in checks if check.kind]

    def _check(
        self,
        name: str,
        value: At,
        *,
        where: At | None = None,
        threshold: float | None = None,
        weight: float = 1.0,
        provider: At | None = None,
    ) -> Check:
        """`where` the name of the check stands, if not at its value."""
        where = where or value
        negated = name.startswith("not-")
        plain = name.removeprefix("not-")
        kind = CHECKS.get(plain, plain)
        row = KINDS.get(kind)
        if row is None:
            if plain in UNSUPPORTED_CHECKS:
                where.problem(f"promptfoo's check '{plain}' is not supported; {UNSUPPORTED_CHECKS[plain]}")
            else:
                known = [*KINDS, *CHECKS]
                where.problem(
                    f"there is no check '{name}'; {did_you_mean(plain, known, 'ronda eval --help lists them')}"
                )
            return Check("")
        given = self._files.resolve(_translated(plain, value))
        if row.needs_threshold and threshold is None:
            where.problem(f"'{name}' needs a 'threshold'")
        read: Any = row.shape(given)
        judge = None
        if kind == "judge":
            judge = self._judge
            if provider is not None and provider.is_given:
                judge = Judge(judge.file, read_model(provider, self._files, theirs=True))
        return Check(kind, read, threshold, negated, weight, judge)


def _translated(name: str, value: At) -> At:
    """Where promptfoo gives the same in another form."""
    if not isinstance(value.value, dict):
        return value
    if name == "trajectory:goal-success" and "goal" in value.value:
        return value["goal"]
    if name == "trajectory:step-count" and "type" in value.value:
        if value["type"].value != "tool":
            value["type"].problem("only steps of type 'tool' are counted")
        rest = {key: item for key, item in value.value.items() if key != "type"}
        return At({"pattern": "*", **rest}, value.place, value.report)
    return value
