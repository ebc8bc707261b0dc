"""Services that speak a dialect of ours, under their own names: `groq:NAME` is Chat Completions at Groq's address, with its key.

One row for each service; docs/models.md has the same rows, and a test compares them. The addresses and variables are those of
each service's own documentation. Nothing here reads the environment: `agent` brings it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from ronda.errors import BadConfig


class Service(Struct, frozen=True):
    """`address` may hold one `{NAME}`, which stands for the first variable of `place_names` that is set."""

    name: str
    title: str
    address: str  # "" where every customer has another one
    key_names: tuple[str, ...] = ()  # variables that may hold the key
    url_name: str = ""  # the variable that may hold another address
    url_path: str = ""  # what belongs behind such an address where it names a host only
    place_names: tuple[str, ...] = ()
    needs_key: bool = True
    dialect: str = "openai-chat"

    def address_in(self, environ: Mapping[str, str]) -> str:
        """Where it is, as this environment says. Raises BadConfig where that is nowhere."""
        if self.url_name and (found := environ.get(self.url_name)):
            return _whole(found, self)
        if self.place_names:
            place = next((environ[name] for name in self.place_names if environ.get(name)), None)
            if place is None:
                raise BadConfig(
                    f"{self.name}: needs a region: set {self.place_names[0]}, or give the address (--base-url)"
                )
            if not place.replace("-", "").isalnum():  # it becomes part of a host's name, and a key is sent there
                raise BadConfig(f"{self.name}: needs a region, and {self.place_names[0]} is {place!r:.40}")
            return self.address.replace(f"{{{self.place_names[0]}}}", place)
        if not self.address:
            raise BadConfig(f"{self.name}: needs the address of your resource: set {self.url_name}, or give --base-url")
        return self.address

    def wants_key(self, base_url: str | None, environ: Mapping[str, str]) -> bool:
        """At its own address; a server of yours at another one may do without."""
        try:
            return self.needs_key and base_url in (None, self.address_in(environ))
        except BadConfig:
            return False

    @property
    def fixed_address(self) -> str | None:
        """The same for every customer."""
        return None if "{" in self.address else self.address or None

    @property
    def host(self) -> str | None:
        """Of its own address, if it is the same for every customer: a key of the environment may go there. This machine has
        many ports, and another program may listen at the next one."""
        return urlsplit(self.fixed_address).hostname if self.fixed_address and self.needs_key else None


def _whole(address: str, service: Service) -> str:
    """OLLAMA_HOST may be `0.0.0.0:11434`, an address to listen at; AZURE_OPENAI_ENDPOINT is a resource without a path."""
    if "://" not in address:
        address = f"http://{address}"
    address = address.rstrip("/")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise BadConfig(f"{service.url_name} is {address!r:.200}, which is no address: {error}") from error
    if parts.hostname in ("0.0.0.0", "::"):  # listens everywhere; this machine is called
        host = "127.0.0.1" if port is None else f"127.0.0.1:{port}"
        address = parts._replace(netloc=host).geturl()
        parts = urlsplit(address)
    own_port = urlsplit(service.address).port
    if port is None and own_port is not None and parts.scheme == "http":
        address = parts._replace(netloc=f"{parts.netloc}:{own_port}").geturl()
    return address if parts.path else address + service.url_path


_ROWS: Final = (
    # On this machine, or on one of yours.
    Service(
        "ollama",
        "Ollama",
        "http://127.0.0.1:11434/v1",
        ("OLLAMA_API_KEY",),
        "OLLAMA_HOST",
        "/v1",
        needs_key=False,
    ),
    Service("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", needs_key=False),
    Service("llama-server", "llama.cpp's server", "http://127.0.0.1:8080/v1", needs_key=False),
    Service("vllm", "vLLM", "http://127.0.0.1:8000/v1", ("VLLM_API_KEY",), needs_key=False),
    # Elsewhere.
    Service(
        "azure",
        "Azure OpenAI, Foundry",
        "",
        ("AZURE_OPENAI_API_KEY",),
        "AZURE_OPENAI_ENDPOINT",
        "/openai/v1",
    ),
    Service(
        "bedrock",
        "Amazon Bedrock, with an API key",
        "https://bedrock-runtime.{AWS_REGION}.amazonaws.com/openai/v1",
        ("AWS_BEARER_TOKEN_BEDROCK",),
        place_names=("AWS_REGION", "AWS_DEFAULT_REGION"),
    ),
    Service("cerebras", "Cerebras", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    Service("deepinfra", "DeepInfra", "https://api.deepinfra.com/v1/openai", ("DEEPINFRA_API_KEY",)),
    Service("deepseek", "DeepSeek", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    Service("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    Service("groq", "Groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    Service("huggingface", "Hugging Face's router", "https://router.huggingface.co/v1", ("HF_TOKEN",)),
    Service("moonshot", "Moonshot (Kimi)", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
    Service("nvidia", "NVIDIA", "https://integrate.api.nvidia.com/v1", ("NVIDIA_API_KEY",)),
    Service("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    Service("together", "Together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    Service("xai", "xAI (Grok)", "https://api.x.ai/v1", ("XAI_API_KEY",)),
)

SERVICES: Final[Mapping[str, Service]] = {row.name: row for row in _ROWS}


def dialect_of(provider: str) -> str:
    """Whose language it is: that of a service, or the provider's own."""
    service = SERVICES.get(provider)
    return provider if service is None else service.dialect


# What a name tells is little and grows old: only names that are known to be blind are here, and `Where.vision` says it for
# any other. A model of which Ronda knows nothing gets the image, and says so itself if it cannot see.
_BLIND: Final = {
    "anthropic": re.compile(r"claude-(2|instant)"),
    "mistral": re.compile(
        r"(open-)?(codestral|mathstral|mistral-(7b|tiny|nemo|moderation|embed)|mixtral|ministral-[38]b-2410)"
    ),
    "openai": re.compile(r"(ft:)?(gpt-3|gpt-4(-\d{4}|-32k.*)?$|o1-(mini|preview)|o3-mini)"),
    "openai-chat": re.compile(
        r"(.*/)?(ft:)?(gpt-3|gpt-4(-\d{4}|-32k.*)?$|o1-(mini|preview)|o3-mini|gpt-oss|deepseek-(chat|reasoner|r1|v3)"
        r"|llama-?3(\.[123])?-(1b|3b|8b|70b|405b)|mixtral|qwen[23](\.5)?-\d)"
    ),
    "local": re.compile(r""),  # the engine is used for text only
}


def sees(provider: str, name: str) -> bool:
    """Whether a model takes images, as far as its name tells."""
    blind = _BLIND.get(dialect_of(provider))
    return blind is None or blind.match(name.lower()) is None
