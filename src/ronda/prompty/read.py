"""The front matter's values → a `Prompty`, every shorthand written out.

References are resolved already. What does not fit is reported with its place, and reading goes on. Keys that the format
doesn't have are no problem (the specification: they must not raise), only a warning; so is everything that loads but
can't be meant.
"""

from __future__ import annotations

from ronda.errors import quote_names
from ronda.prompty.connections import read_connection
from ronda.prompty.model import API_TYPES, Format, Model, ModelOptions, Parser, Prompty, Template
from ronda.prompty.read_properties import read_properties
from ronda.prompty.read_tools import check_bindings, read_tools
from ronda.prompty.report import At

TOP = tuple(name for name in Prompty.__struct_encode_fields__ if name not in ("path", "bodyLine", "host"))
MODEL = Model.__struct_encode_fields__
OPTIONS = ModelOptions.__struct_encode_fields__

# Where the first version of the format had something else.
_OLD_TOP = {
    "sample": "since version 2 an input has its own 'default' or 'example'",
    "authors": "since version 2 it stands in 'metadata'",
    "tags": "since version 2 it stands in 'metadata'",
    "version": "since version 2 it stands in 'metadata'",
}
_OLD_MODEL = {
    "api": "since version 2 it is 'apiType'",
    "configuration": "since version 2 it is 'connection', beside 'id' and 'provider'",
    "parameters": "since version 2 it is 'options'",
}
_OLD_OPTIONS = {
    "max_tokens": "it is 'maxOutputTokens'",
    "maxTokens": "it is 'maxOutputTokens'",
    "stop": "it is 'stopSequences'",
}
_FOR_PROVIDERS = "what only a provider knows goes under 'additionalProperties'"


def read_prompty(top: At, body: str, path: str | None, body_line: int) -> Prompty:
    top.warn_unknown(TOP, _OLD_TOP)
    instructions = top["instructions"]
    if instructions.is_given and body.strip():
        instructions.warn("the text below the front matter is used instead")
    inputs = read_properties(top["inputs"], "input")
    tools = read_tools(top["tools"])
    check_bindings(top["tools"], tools, inputs)
    return Prompty(
        name=top["name"].text(),
        display_name=top["displayName"].text(),
        description=top["description"].text(),
        metadata=top["metadata"].mapping(),
        model=_model(top["model"]),
        inputs=inputs,
        outputs=read_properties(top["outputs"], "output"),
        tools=tools,
        agents=top["agents"].texts() or (),
        template=_template(top["template"]),
        instructions=body if body.strip() else instructions.text(body),
        path=path,
        body_line=body_line if body.strip() or not instructions.is_given else 0,
    )


# ---- the model --------------------------------------------------------------------------------------------------------


def _model(at: At) -> Model | None:
    if isinstance(at.value, str):
        return Model(id=at.value)
    if not at.is_mapping():
        return None
    at.warn_unknown(MODEL, _OLD_MODEL)
    api_type = at["apiType"].text("chat")
    if api_type not in API_TYPES:
        at["apiType"].warn(f"Unsupported API type: {api_type}; there are {quote_names(API_TYPES)}")
    return Model(
        id=at["id"].text(),
        provider=at["provider"].maybe_text(),
        api_type=api_type,
        connection=read_connection(at["connection"]),
        options=_options(at["options"]),
    )


def _options(at: At) -> ModelOptions | None:
    if not at.is_mapping():
        return None
    at.warn_unknown(OPTIONS, dict.fromkeys(set(at.value) - set(OPTIONS), _FOR_PROVIDERS) | _OLD_OPTIONS)
    return ModelOptions(
        temperature=at["temperature"].number(),
        max_output_tokens=at["maxOutputTokens"].integer(),
        top_p=at["topP"].number(),
        top_k=at["topK"].integer(),
        frequency_penalty=at["frequencyPenalty"].number(),
        presence_penalty=at["presencePenalty"].number(),
        seed=at["seed"].integer(),
        stop_sequences=at["stopSequences"].texts(),
        allow_multiple_tool_calls=at["allowMultipleToolCalls"].maybe_flag(),
        additional_properties=at["additionalProperties"].mapping(),
    )


# ---- template ---------------------------------------------------------------------------------------------------------


def _template(at: At) -> Template:
    if not at.is_given:
        return Template()
    if not isinstance(at.value, dict):
        # The specification calls a bare string the format's kind; its vectors refuse it, and they come first.
        hint = f": write template: {{format: {{kind: {at.value}}}}}" if isinstance(at.value, str) else ""
        at.problem(f"Invalid template format{hint}")
        return Template()
    at.warn_unknown(("format", "parser"))
    format_, parser = at["format"], at["parser"]
    for part in (format_, parser):
        if part.is_given and not isinstance(part.value, str | dict):
            part.problem("Invalid template format: a kind or a mapping is needed here")
    if isinstance(format_.value, dict):
        format_.warn_unknown(("kind", "strict", "options"))
    if isinstance(parser.value, dict):
        parser.warn_unknown(("kind", "options"))
    return Template(
        format=Format(
            kind=_template_kind(format_, "jinja2"),
            strict=format_["strict"].maybe_flag(),
            options=format_["options"].mapping(),
        ),
        parser=Parser(kind=_template_kind(parser, "prompty"), options=parser["options"].mapping()),
    )


def _template_kind(at: At, default: str) -> str:
    kind = at.value if isinstance(at.value, str) else at["kind"].text()
    return default if kind in ("", "*") else kind
