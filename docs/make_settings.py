"""Writes docs/settings.md from the table of settings (`ronda.server.config`)."""

from __future__ import annotations

import re
from pathlib import Path

from ronda.server.features.table import all_rows
from ronda.server.setting import Row, member_rows

PAGE = Path(__file__).parent / "settings.md"

HEAD = """# Settings

Every setting of `ronda serve`, once. `make docs` writes this page from the table that the server goes by.

You can give a setting as a flag, as an environment variable or in a TOML file that you name with `--config`. If a setting is
given more than once, the flag counts first, then the variable, then the file. In the file, `max-run-seconds` and
`max_run_seconds` are the same. Paths in the file start at the file's folder. A variable is `RONDA_` and the name of the setting
in capitals; lists are separated by commas, and a switch is `true` or `false`.

```toml
model = "openai-chat:qwen3"
base-url = "http://127.0.0.1:11434/v1"
tools = ["my_tools.py"]
max-run-seconds = 600
journal-max-days = 7

[retry]
tries = 5
on_interrupt = "again"

[timeouts]
first_byte = 60
```

"""


def page() -> str:
    groups: dict[str, list[str]] = {}
    for row in all_rows():
        for one in (row, *member_rows(row)):
            groups.setdefault(one.setting.group, []).append(_line(one, is_member=one is not row))
    tables = [
        "\n".join(
            [
                f"## {title[0].upper()}{title[1:]}",
                "",
                "| in the file | flag | default | means |",
                "|---|---|---|---|",
                *lines,
            ]
        )
        for title, lines in groups.items()
    ]
    return HEAD + "\n\n".join(tables) + "\n"


def _line(row: Row, *, is_member: bool) -> str:
    table, _, member = row.name.partition("_")
    key = f"`[{table}] {member}`" if is_member else f"`[{row.name}]`" if row.is_table else f"`{row.name}`"
    flags = ", ".join(f"`{name}`" for name in re.findall(r"(?<![\w-])--?[a-z][\w-]*", row.setting.flag))
    default = row.default_text if row.setting.default else row.default_text and f"`{row.default_text}`"
    text = f"{row.setting.help[0].upper()}{row.setting.help[1:]}.{row.setting.details and f' {row.setting.details}'}"
    words = "".join(f" One of {', '.join(f'`{word}`' for word in row.choices)}." if row.choices else "")
    return f"| {key} | {flags} | {default} | {text}{words} |".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
