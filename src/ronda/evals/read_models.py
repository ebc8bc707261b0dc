"""`models` (promptfoo: `providers`) and `prompts` of a suite → which models are asked, with what."""

from __future__ import annotations

from typing import Any, Final

from ronda.errors import BadConfig
from ronda.evals.files import FILE, SuiteFiles, Unreadable
from ronda.evals.promptfoo import model_spec, why_foreign
from ronda.evals.shapes import refuse_unknown
from ronda.evals.suite import SCRIPT, ModelChoice, Prompt
from ronda.prompty.report import At
from ronda.providers import split_spec

_MODEL_KEYS: Final = ("id", "label", "base_url", "options", "config", "prompts", "delay")
_OPTIONS: Final = {
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "reasoning_effort": "reasoning_effort",
}
_ADDRESS: Final = ("apiBaseUrl", "apiHost", "base_url")
_UNSUPPORTED: Final = {
    "tools": "declare tools in a .prompty file, in a file named by 'tools', or as 'mocks' with 'parameters'",
    "apiKey": "set the key's variable in the environment",
    "apiKeyEnvar": "set the key's variable in the environment",
    "response_format": "declare 'outputs' in a .prompty file",
}


def read_models(listed: At, files: SuiteFiles, *, theirs: bool) -> tuple[ModelChoice, ...]:
    """`theirs`: under promptfoo's word, and so with its names: `openai:NAME` is another API there than here."""
    if not listed.is_given:
        return ()
    items = list(listed.items()) if isinstance(listed.value, list) else [listed]
    found = [model for item in items if (model := read_model(item, files, theirs=theirs)) is not None]
    names = [model.name for model in found]
    for item, model in zip(items, found, strict=False):
        if names.count(model.name) > 1:
            item.problem(f"two models are named '{model.name}'; give each a 'label' of its own")
    return tuple(found)


def read_model(at: At, files: SuiteFiles, *, theirs: bool) -> ModelChoice | None:
    if isinstance(at.value, str):
        return _choice(at, at.value, files, theirs)
    if not at.is_mapping() or not at.value:
        return None
    if len(at.value) == 1 and "id" not in at.value:  # promptfoo's short form: {"openai:gpt-5": {config: …}}
        name, item = next(at.fields())
        return _detailed(item, _choice(item, name, files, theirs))
    if not isinstance(at["id"].value, str):
        at.problem("'id' names the model, as PROVIDER:NAME")
        return None
    return _detailed(at, _choice(at["id"], at["id"].text(), files, theirs))


def _detailed(at: At, plain: ModelChoice | None) -> ModelChoice | None:
    if plain is None or not at.is_mapping():
        return plain
    refuse_unknown(at, _MODEL_KEYS)
    options: dict[str, Any] = at["options"].mapping()
    base_url = at["base_url"].maybe_text()
    for name, item in at["config"].fields():
        if name in _OPTIONS:
            options[_OPTIONS[name]] = item.value
        elif name in _ADDRESS:
            base_url = item.text()
        else:
            item.problem(f"'{name}' of promptfoo's config is not supported; {_UNSUPPORTED.get(name, 'leave it out')}")
    return ModelChoice(plain.spec, at["label"].text(), base_url, options)


def _choice(at: At, name: str, files: SuiteFiles, theirs: bool) -> ModelChoice | None:
    if (reason := why_foreign(name)) is not None:
        at.problem(reason)
        return None
    if name == SCRIPT:
        return ModelChoice(SCRIPT)
    spec = model_spec(name) if theirs else name
    kind, _, rest = spec.partition(":")
    if kind == "script":
        return ModelChoice(f"script:{files.find(rest)}", label=name)
    try:
        split_spec(spec)
    except BadConfig as error:
        at.problem(str(error))
        return None
    return ModelChoice(spec, label="" if spec == name else name)


def read_prompts(at: At, files: SuiteFiles) -> tuple[Prompt, ...]:
    """`agent: FILE.prompty`, or `prompts`: files and templates."""
    items = list(at.items()) if isinstance(at.value, list) else [at]
    found: list[Prompt] = []
    for item in items:
        label = ""
        if isinstance(item.value, dict):
            refuse_unknown(item, ("label", "id", "raw", "file"))
            label = item["label"].text()
            item = next((item[key] for key in ("file", "raw", "id") if item[key].is_given), item)
        if not isinstance(item.value, str) or not item.value.strip():
            item.problem("a .prompty file, or the text of a prompt, is needed here")
            continue
        prompt = _prompt(item, item.value, label, files)
        if prompt is not None:
            found.append(prompt)
    return tuple(found)


def _prompt(at: At, value: str, label: str, files: SuiteFiles) -> Prompt | None:
    if value.removeprefix(FILE).endswith(".prompty") and "\n" not in value:
        path = files.find(value)
        if not path.is_file():
            at.problem(f"there is no file {path}")
            return None
        return Prompt(label or value.removeprefix(FILE), file=str(path))
    if value.startswith(FILE):
        if not value.endswith((".txt", ".md", ".json", ".j2")):
            at.problem(f"the prompt {value} is not supported; give a .prompty, .txt, .md or .json file")
            return None
        try:
            return Prompt(label or value.removeprefix(FILE), text=files.text(value).rstrip("\n"))
        except Unreadable as error:
            at.problem(str(error))
            return None
    line = " ".join(value.split())
    return Prompt(label or (line if len(line) <= 40 else f"{line[:39]}…"), text=value)
