"""One chat template per family, as short as it can be and still be one: the markers of the real ones, and nothing else."""

from typing import Final

CHATML: Final = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"

_HERMES: Final = """{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for call in message.tool_calls %}<tool_call>
{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}
</tool_call>{% endfor %}"""

TEMPLATES: Final = {
    "hermes": _HERMES,
    "hermes, thinking": _HERMES + "{%- if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}</think>",
    "qwen_xml": """{%- for tool in tools %}{{ tool | tojson }}{% endfor %}
<tool_call>
<function={{ call.name }}>
<parameter={{ name }}>
{{ value }}
</parameter>
</function>
</tool_call><think></think>""",
    "harmony": """{{ render_tool_namespace("functions", tools) }}
<|start|>assistant<|channel|>analysis<|message|>{{ message.thinking }}<|end|>
<|start|>assistant to=functions.{{ call.name }}<|channel|>commentary json<|message|>{{ call.arguments }}<|call|>""",
    "gemma4": """{%- for tool in tools %}<|tool>{{ declare(tool) }}<tool|>{% endfor %}
<|tool_call>call:{{ name }}{ {{- key }}:<|"|>{{ value }}<|"|>}<tool_call|>
{%- if not thinking %}<|channel>thought\n<channel|>{% endif %}""",
    "lfm2": """List of tools: {{ tools | tojson }}
<|tool_call_start|>[{{ name }}({{ arguments | join(", ") }})]<|tool_call_end|><think></think>""",
    "llama3": """{%- if tools %}{{ tools | tojson }}{% endif %}
<|start_header_id|>assistant<|end_header_id|>{"name": "{{ call.name }}", "parameters": {{ call.arguments }}}
{%- if builtin_tools %}<|python_tag|>{{ call.name }}.call(){% endif %}<|eot_id|>""",
    "mistral": "[AVAILABLE_TOOLS]{{ tools }}[/AVAILABLE_TOOLS][TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}",
    "mistral_list": '[AVAILABLE_TOOLS]{{ tools }}[/AVAILABLE_TOOLS][TOOL_CALLS][{"name": "{{ name }}"}]',
    "granite": "{%- if available_tools %}respond only with <|tool_call|> and a list{% endif %}<|start_of_role|>",
}

# Templates of formats that are not read here: our own template is used instead.
OTHERS: Final = {
    "plain": CHATML,
    "glm": "{{ tools }}<tool_call>{{ name }}\n<arg_key>{{ key }}</arg_key>\n<arg_value>{{ value }}</arg_value></tool_call>",
    "deepseek": "{{ tools }}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ name }}",
}
