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
    "minicpm_5": '{{ tools }}<function name="{{ name }}"><param name="{{ key }}">{{ value }}</param></function>',
    "lfm2": """List of tools: {{ tools | tojson }}
<|tool_call_start|>[{{ name }}({{ arguments | join(", ") }})]<|tool_call_end|><think></think>""",
    "llama3": """{%- if tools %}{{ tools | tojson }}{% endif %}
<|start_header_id|>assistant<|end_header_id|>{"name": "{{ call.name }}", "parameters": {{ call.arguments }}}
{%- if builtin_tools %}<|python_tag|>{{ call.name }}.call(){% endif %}<|eot_id|>""",
    "mistral": "[AVAILABLE_TOOLS]{{ tools }}[/AVAILABLE_TOOLS][TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}",
    "mistral_list": '[AVAILABLE_TOOLS]{{ tools }}[/AVAILABLE_TOOLS][TOOL_CALLS][{"name": "{{ name }}"}]',
    "granite": "{%- if available_tools %}respond only with <|tool_call|> and a list{% endif %}<|start_of_role|>",
}

# Templates of formats that are not read here, most of them with markers of one that is.
OTHERS: Final = {
    "plain": CHATML,
    "MiniMax M3": "{% set ns = ']<]minimax[>[' %}{{ tools }}{{ ns + '<tool_call>' }}{{ ns + '<invoke name=\"' + call.name }}"
    "{{ ns + '<' + key + '>' + value + ns + '</' + key + '>' }}{{ call.arguments }}",
    "Functionary 3.2": "{{ tools }}<|start_header_id|>{{ '>>>all\\n' }}{{ '>>>' + call.name + '\\n' + call.arguments }}",
    "tags of its own": "{{ tools }}<tool_call><args>{{ arguments }}</args><name>{{ name }}</name></tool_call>",
    "Hunyuan, dense": "{{ tools }}<tool_calls><tool_call>{{ name }}\n```json\n{{ arguments }}\n```</tool_call></tool_calls>",
    "Harmony of others": "chat_format=llm-jp-harmony-v1{{ tools }}<|channel|>commentary to=functions.{{ name }}<|message|>",
    "Granite, another": "{{ tools }}<function_call> {{ call | tojson }}",
    "LongCat": "{{ tools }}<longcat_tool_call>{{ call | tojson }}</longcat_tool_call>",
    "Apertus": "{{ tools }}<|tools_prefix|>[{{ call | tojson }}]<|tools_suffix|>",
    "MiroThinker": "{{ tools }}<use_mcp_tool>\n<server_name>x</server_name>\n<tool_name>{{ name }}</tool_name>\n<arguments>"
    '{{ arguments }}</arguments></use_mcp_tool><tool_call>\n{"name": ',
}
