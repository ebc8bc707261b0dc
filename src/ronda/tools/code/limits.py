"""The operator's policy and what a client lets its code have at the most → the policy that holds: of each the narrower."""

from __future__ import annotations

from msgspec.structs import replace

from ronda.core.supplies import NO_LIMITS, CodeLimits
from ronda.sandbox.policy import NoNetwork, Policy


def limit_policy(policy: Policy, limits: CodeLimits) -> Policy:
    if limits == NO_LIMITS:
        return policy
    memory = min(policy.max_memory_mb, limits.memory_mb or policy.max_memory_mb)
    return replace(policy, max_memory_mb=memory, network=NoNetwork() if limits.is_offline else policy.network)
