"""The tools that run code, and those that read files, by the names that they have here: those of mistral.rs."""

from __future__ import annotations

from typing import Final

PYTHON: Final = "mistralrs_execute_python"
SHELL: Final = "mistralrs_shell"
READ_FILE: Final = "mistralrs_read_file"
LIST_FILES: Final = "mistralrs_list_files"
