"""Anthropic's Messages API. What it keeps on a turn as `Native` is the turn's `content`, as the API says it."""

API = "anthropic"

# The `anthropic-version` we speak unless told otherwise, and the one before it, which still takes sampling parameters and
# wants its key as `x-api-key`. https://platform.claude.com/docs/en/api/versioning
VERSION = "2026-10-21"
OLD_VERSION = "2023-06-01"
