"""python -m tests.conformance_local [DATA_DIR [PART…]]: calls and schemas on the real local model, through our server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai import APIStatusError, OpenAI
from tests.conformance_local.auto import auto
from tests.conformance_local.responses import responses
from tests.conformance_local.schemas import TOOLS, declared

from ronda.schema.validate import Validator

ASK = "Do something useful with the tool you have."
WORKERS = 4  # with more the long prompts of some push those of others out of the slots, and are read twice


@contextmanager
def server() -> Iterator[OpenAI]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--data-dir", folder]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"http://\S+", line):
                    break
            else:
                sys.exit("the server did not start")
            try:
                yield OpenAI(base_url=f"{found.group()}/v1", api_key="any", max_retries=0, timeout=3600)
            finally:
                process.terminate()
                process.stderr.read()


def call(client: OpenAI, name: str, stream: bool, **options: Any) -> tuple[str, list[tuple[str, str]], str | None]:
    """Text, calls and finish reason of one request."""
    messages = [{"role": "user", "content": ASK}]
    asked: dict[str, Any] = {"model": "default", "messages": messages, "tools": [declared(name)], **options}
    if not stream:
        choice = client.chat.completions.create(**asked).choices[0]
        calls = [(one.function.name, one.function.arguments) for one in choice.message.tool_calls or []]
        return choice.message.content or "", calls, choice.finish_reason
    text, finish = "", None
    found: dict[int, list[str]] = {}
    for chunk in client.chat.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or []:
                name_and_arguments = found.setdefault(piece.index, ["", ""])
                name_and_arguments[0] += piece.function.name or ""
                name_and_arguments[1] += piece.function.arguments or ""
    return text, [(one[0], one[1]) for one in found.values()], finish


def is_valid(name: str, calls: list[tuple[str, str]]) -> bool:
    if not calls:
        return False
    return all(called == name and not Validator(TOOLS[name]).problems(json.loads(text)) for called, text in calls)


def counted(title: str, passed: Iterable[bool]) -> tuple[int, int]:
    results = list(passed)
    print(f"{title}: {sum(results)} of {len(results)}", flush=True)
    return sum(results), len(results) - sum(results)


def forced_calls(client: OpenAI, pool: ThreadPoolExecutor) -> tuple[int, int]:
    passed = failed = 0
    for stream in (False, True):
        for options in ({}, {"max_tokens": 200}):
            jobs = [(name, seed) for name in TOOLS for seed in range(5)]

            def one(job: tuple[str, int], stream: bool = stream, options: dict[str, int] = options) -> bool:
                _, calls, _ = call(client, job[0], stream, tool_choice="required", seed=job[1], **options)
                return is_valid(job[0], calls)

            title = f"required, {'streamed' if stream else 'plain'}{', max_tokens 200' if options else ''}"
            good, bad = counted(title, pool.map(one, jobs))
            passed, failed = passed + good, failed + bad
    return passed, failed


def choices(client: OpenAI, pool: ThreadPoolExecutor) -> tuple[int, int]:
    """What `auto`, `none` and a generous budget must show in twenty runs each."""

    def twenty(**options: Any) -> list[tuple[str, list[tuple[str, str]], str | None]]:
        return list(pool.map(lambda seed: call(client, "get_weather", False, seed=seed, **options), range(20)))

    roomy = twenty(tool_choice="required", max_tokens=4000, temperature=1.0)
    free = twenty(tool_choice="auto", max_tokens=100)
    never = twenty(tool_choice="none", max_tokens=60)
    shown = {
        "max_tokens 4000: always a valid call": all(is_valid("get_weather", calls) for _, calls, _ in roomy),
        "max_tokens 4000: text before some calls": any(text.strip() for text, _, _ in roomy),
        "auto: sometimes no call": any(not calls for _, calls, _ in free),
        "none: never a call": not any(calls for _, calls, _ in never),
    }
    for title, holds in shown.items():
        print(f"{title}: {'yes' if holds else 'NO'}", flush=True)
    return sum(shown.values()), len(shown) - sum(shown.values())


def schemas(client: OpenAI, pool: ThreadPoolExecutor, data: Path) -> tuple[int, int]:
    """Real-world schemas: what is accepted decodes to a valid instance, twice each; what is not is refused by name."""
    file = data / "schemas" / "jsonschemabench.jsonl"
    if not file.is_file():
        print(f"schemas: skipped, {file} is not there")
        return 0, 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    refused: list[str] = []

    def one(job: tuple[dict[str, Any], int]) -> bool | None:
        row, seed = job
        answer_format = {"type": "json_schema", "json_schema": {"name": "answer", "schema": row["schema"]}}
        asked: dict[str, Any] = {"response_format": answer_format, "seed": seed, "max_tokens": 1500}
        try:
            answer = client.chat.completions.create(
                model="default", messages=[{"role": "user", "content": "Write a short example."}], **asked
            )
        except APIStatusError as error:
            if error.status_code == 400:
                refused.append(f"{row['id']}: {error.message[:160]}")
                return None
            return False
        if answer.choices[0].finish_reason != "stop":  # the grammar is bounded so that it comes to an end in time
            return False
        return not Validator(row["schema"], formats=True).problems(json.loads(answer.choices[0].message.content or ""))

    results = list(pool.map(one, [(row, seed) for row in rows[:80] for seed in (1, 2)]))
    judged = [result for result in results if result is not None]
    passed, failed = counted("schemas, decoded and valid", judged)
    most = len(rows[:80]) * 2 // 10
    print(f"schemas, refused by name: {len(refused)} of {len(results)} (at most {most})")
    for reason in refused[:10]:
        print(f"    {reason}")
    return passed, failed + (len(refused) > most)


Part = Callable[[OpenAI, ThreadPoolExecutor], tuple[int, int]]


def main(arguments: list[str]) -> int:
    if any(argument.startswith("-") for argument in arguments):
        sys.exit(__doc__)
    data = Path(arguments[0] if arguments else "../shared/data")
    parts: dict[str, Part] = {
        "calls": forced_calls,
        "choices": choices,
        "responses": lambda client, _: responses(str(client.base_url).rstrip("/")),
        "auto": lambda client, pool: auto(client, pool, data),
        "schemas": lambda client, pool: schemas(client, pool, data),
    }
    wanted = arguments[1:] or list(parts)
    if unknown := set(wanted) - parts.keys():
        sys.exit(f"there is no part '{min(unknown)}'; there is {', '.join(parts)}")
    passed = failed = 0
    began = time.monotonic()
    with server() as client, ThreadPoolExecutor(WORKERS) as pool:
        for name in wanted:
            good, bad = parts[name](client, pool)
            if data.is_dir() and not good and not bad:
                print(f"{name}: FAILED, nothing was checked")
                bad = 1
            print(f"({name}: {time.monotonic() - began:.0f} s so far)", flush=True)
            passed, failed = passed + good, failed + bad
    print(f"in {time.monotonic() - began:.0f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
