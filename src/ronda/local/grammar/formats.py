"""A `format` → a pattern whose matches all have it.

Not every e-mail address there is, but only e-mail addresses, whichever validator looks at them: calendars without leap days,
hosts of a few short labels, URIs of http. All are printable ASCII of a bounded length, so that a decoder knows what they cost.
A format that is not here is a note, which validators ignore too.
"""

from __future__ import annotations

from typing import Final

_DATE: Final = r"(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,3})?(?:Z|[+-](?:0[0-9]|1[0-2]):[0-5][0-9])"
_LABEL: Final = r"[A-Za-z0-9]{1,15}(?:-[A-Za-z0-9]{1,12}){0,3}"  # two hyphens in a row would mean something
_HOST: Final = rf"{_LABEL}(?:\.{_LABEL}){{0,3}}"
_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_EMAIL: Final = (
    rf"[A-Za-z0-9]{{1,20}}(?:[._+-][A-Za-z0-9]{{1,12}}){{0,3}}"  # 64 characters at most before the @
    rf"@{_LABEL}(?:\.{_LABEL}){{0,2}}\.[A-Za-z]{{2,8}}"
)
_SEGMENT: Final = r"[A-Za-z0-9._~!$&()*+,;=:@-]{0,40}"
_PATH: Final = r"[A-Za-z0-9._~-]{1,40}"
_URI: Final = (
    rf"https?://{_HOST}(?::[1-9][0-9]{{0,3}})?(?:/{_SEGMENT}){{0,6}}"
    r"(?:\?[A-Za-z0-9._~=&-]{0,80})?(?:#[A-Za-z0-9._~=-]{0,40})?"
)
_REFERENCE: Final = rf"(?:{_URI}|/?{_PATH}(?:/{_PATH}){{0,6}}(?:#[A-Za-z0-9._~/-]{{0,40}})?|#[A-Za-z0-9._~/-]{{0,60}})"
_HEX: Final = "[0-9a-f]"

PATTERNS: Final = {
    name: f"^{pattern}$"
    for name, pattern in {
        "date": _DATE,
        "time": _TIME,
        "date-time": f"{_DATE}T{_TIME}",
        "duration": r"P(?:[1-9][0-9]{0,2}[YMWD]|T[1-9][0-9]{0,2}[HMS])",
        "email": _EMAIL,
        "idn-email": _EMAIL,
        "hostname": _HOST,
        "idn-hostname": _HOST,
        "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
        "ipv6": rf"(?:(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}|(?::|(?:{_HEX}{{1,4}}:){{1,3}}):{_HEX}{{1,4}})",
        "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-[1-5]{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}",
        "uri": _URI,
        "iri": _URI,
        "uri-reference": _REFERENCE,
        "iri-reference": _REFERENCE,
        "uri-template": _REFERENCE,
        "json-pointer": r"(?:/[A-Za-z0-9_-]{0,30}){0,6}",
        "relative-json-pointer": r"(?:0|[1-9][0-9]?)(?:#|(?:/[A-Za-z0-9_-]{1,30}){0,6})",
        "regex": r"\^?[A-Za-z0-9_ -]{0,40}(?:\.[*+])?[A-Za-z0-9_ -]{0,40}\$?",
    }.items()
}
