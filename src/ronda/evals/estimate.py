"""How often a case passes, from a few tries: without the bias of trying k times and looking once.

    pass@k    the chance that at least one of k tries passes       1 - C(n-c, k) / C(n, k)
    pass^k    the chance that all k tries pass                     C(c, k) / C(n, k)

n tries were made and c of them passed; all ways to choose k of the n count the same. pass@k is the estimator of "Evaluating Large
Language Models Trained on Code" (Chen et al., 2021), pass^k that of tau-bench (Yao et al., 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


def pass_at(n: int, c: int, k: int) -> float:
    _check(n, c, k)
    return 1 - comb(n - c, k) / comb(n, k)


def pass_hat(n: int, c: int, k: int) -> float:
    _check(n, c, k)
    return comb(c, k) / comb(n, k)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _check(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"of {n} tries {c} cannot have passed, or {k} cannot be chosen")
