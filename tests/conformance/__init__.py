"""Tests on recorded data from outside the repository: `python -m tests.conformance [DATA_DIR]`.

A part is one module with `run(data) -> PartResult`, listed in the table of `__main__.py`. It reads what it finds under `data`
and says what is not there. Where a recording cannot pass, the exception is a rule with a reason, never a list of ids: it
must hold on recordings that were not seen here.
"""
