"""What calls cost: by the operator, by the provider, by the table; and what is not known is never 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from genai_prices import Usage as TableUsage
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.commands import shown

from ronda.core.events import ModelFinished
from ronda.core.parts import NO_USAGE, AssistantTurn, Text, Usage
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.prices import Price, find_price
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, capabilities_of
from ronda.providers import Where, open_provider
from ronda.providers.prices import PricedModel, is_known, priced, table_place
from ronda.providers.script import ScriptedModel, says

REQUEST = ModelRequest((), (), AUTO, NO_OPTIONS, False, "run", 0, 1, {})


def to_nobody(previews: Any) -> None:
    return


async def cost_of(kind: str, name: str, usage: Usage, base_url: str | None = None) -> float | None:
    model = priced(ScriptedModel(says("x", usage=usage)), kind, name, base_url)
    return (await model.call(REQUEST, to_nobody)).usage.cost


async def test_a_call_costs_what_the_table_says_with_what_a_cache_gave() -> None:
    usage = Usage(1000, 100, cached=200)
    table = calc_price(
        TableUsage(input_tokens=1000, output_tokens=100, cache_read_tokens=200), "gpt-4o", provider_id="openai"
    )
    assert await cost_of("openai", "gpt-4o", usage) == float(table.total_price) > 0
    assert await cost_of("openai-chat", "gpt-4o", usage, "https://api.openai.com/v1") == float(table.total_price)


async def test_what_is_not_known_is_unknown_and_what_is_local_is_free() -> None:
    usage = Usage(10, 5)
    assert await cost_of("openai", "a-model-that-nobody-has", usage) is None
    assert await cost_of("openai-chat", "gpt-4o", usage, "http://127.0.0.1:9/v1") is None
    assert await cost_of("openai-chat", "gpt-4o", usage, "http://gateway:9/v1") is None
    assert await cost_of("script", "x.json", usage) is None
    assert await cost_of("local", "smollm2", usage) == 0.0


async def test_the_provider_s_word_counts_before_the_table_and_the_operator_s_before_both() -> None:
    said = Usage(1000, 100, cost=0.5)
    assert await cost_of("openai", "gpt-4o", said) == 0.5
    own = PricedModel(ScriptedModel(says("x", usage=said)), Price(1.0, 10.0).cost, replaces=True)
    assert (await own.call(REQUEST, to_nobody)).usage.cost == pytest.approx(0.002)


async def test_several_answers_to_one_request_have_their_cost() -> None:
    class Many(ScriptedModel):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(call_many=self.call_many)

        async def call_many(self, request: ModelRequest, shows: Any) -> list[ModelFinished]:
            turn = AssistantTurn((Text("x"),))
            return [ModelFinished(turn, Usage(10, 5)), ModelFinished(turn)]

    call_many = capabilities_of(priced(Many(), "local", "x", None)).call_many
    assert call_many is not None
    assert [one.usage for one in await call_many(REQUEST, [])] == [Usage(10, 5, cost=0.0), NO_USAGE]


def test_the_table_is_asked_by_the_address_that_is_called() -> None:
    assert table_place("groq", None) == {"provider_api_url": "https://api.groq.com/openai/v1"}
    assert table_place("anthropic", None) == {"provider_id": "anthropic"}
    assert table_place("anthropic", "https://proxy.example.com") == {"provider_api_url": "https://proxy.example.com"}
    assert table_place("ollama", None) is None
    assert table_place("openai", "http://10.0.0.7/v1") is None
    assert [is_known(spec) for spec in ("openai:gpt-4o", "openai:nothing-like-it", "local:x", "script:y")] == [
        True, False, True, False,
    ]  # fmt: skip


def test_where_no_price_can_be_known_a_provider_is_not_wrapped() -> None:
    opened = open_provider("openai-chat:gpt-4o", Where("http://127.0.0.1:9/v1", "key", vision=True))
    assert not isinstance(opened, PricedModel)


def test_an_operator_s_price_is_found_by_name_then_by_pattern() -> None:
    exact, wide = Price(1, 2), Price(3, 4, cached=0.3, cache_written=5)
    prices = {"openai:gpt-5*": wide, "openai:gpt-5": exact}
    assert find_price(prices, "openai:gpt-5") == exact
    assert find_price(prices, "openai:gpt-5-mini") == wide
    assert find_price(prices, "openai:o3") is None
    assert wide.cost(Usage(100, 10, cached=60, cache_written=30)) == pytest.approx(
        (10 * 3 + 60 * 0.3 + 30 * 5 + 10 * 4) / 1e6
    )
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"input": -1, "output": 1}, Price)


# ---- sums ----------------------------------------------------------------------------------------------------------------

usages = st.builds(
    Usage,
    st.integers(0, 9),
    st.integers(0, 9),
    cost=st.none() | st.integers(0, 8).map(lambda one: one / 8),  # exact in binary, so that sums are
)


@given(st.lists(usages))
def test_a_sum_is_known_where_every_part_that_used_tokens_is(parts: list[Usage]) -> None:
    total = sum(parts, NO_USAGE)
    known = [part.cost for part in parts if part.cost is not None]
    if any(part.total and part.cost is None for part in parts):
        assert total.cost is None
    elif known:
        assert total.cost == sum(known)
    else:
        assert total.cost is None
    assert (total - NO_USAGE, total - total) == (total, Usage(cost=None if total.cost is None else 0.0))


def test_an_old_journal_that_says_nothing_of_a_cost_does_not_know_it() -> None:
    old = msgspec.json.decode(b'{"input":3,"output":2}', type=Usage)
    assert (old.cost, msgspec.json.encode(Usage(3, 2, cost=0.0))) == (None, b'{"input":3,"output":2,"cost":0.0}')


# ---- for operators -------------------------------------------------------------------------------------------------------


def test_doctor_names_models_without_a_price(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = tmp_path / "ronda.toml"
    settings.write_text('model = "openai-chat:mine"\nbase_url = "http://127.0.0.1:9/v1"\n')
    _, out, _ = shown(capsys, "doctor", "--config", str(settings))
    assert "no price is known of 'openai-chat:mine'  → give it under [prices]" in out
    settings.write_text(settings.read_text() + '[prices]\n"openai-chat:*" = { input = 1, output = 2 }\n')
    _, out, _ = shown(capsys, "doctor", "--config", str(settings))
    assert "the price of every model of these settings is known" in out
    settings.write_text('model = "local:smollm2"\n[prices]\n"x:y" = { input = -1, output = 2 }\n')
    code, out, _ = shown(capsys, "doctor", "--config", str(settings))
    assert code == 1
    assert "not negative" in out
