"""Results ranked and cut to a budget."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.api_server import Api

from ronda.providers.embeddings import ServiceEmbedder
from ronda.tools.search.backend import Result
from ronda.tools.search.rank import HEAD, PASSAGE, bm25, cut, passages, select, tokens, words

FILLER = "The weather in the north was mild that year, and nobody wrote much about it in the papers of the capital. "
LONG = "\n".join(
    [FILLER * 5] * 30 + ["Sourdough needs a starter of flour and water, fed every day. " * 5] + [FILLER * 5] * 30
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bread, bread & BUTTER!", ["bread", "bread", "butter"]),
        ("東京都", ["東京", "京都"]),
        ("iPhone17の価格", ["iphone17", "の価", "価格"]),
        ("水", ["水"]),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_rare_words_count_more_than_common_ones() -> None:
    texts = ["bread and butter", "bread and sourdough", "bread and jam", "no match at all"]

    scores = bm25("bread sourdough", texts)

    assert max(scores) == scores[1]
    assert scores[3] == 0.0
    assert bm25("anything", []) == []


@given(st.text(max_size=3_000), st.integers(10, 200))
def test_passages_lose_no_words_and_keep_their_size(text: str, size: int) -> None:
    found = passages(text, size)

    assert all(0 < len(one.encode()) <= size for one in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@given(st.text(max_size=500), st.integers(0, 200))
def test_a_cut_text_is_within_its_budget(text: str, budget: int) -> None:
    assert tokens(cut(text, budget)) <= budget
    assert text.startswith(cut(text, budget))


async def test_the_best_passage_of_a_long_page_is_shown() -> None:
    results = [
        Result("News", "Old papers", "https://news.test", LONG),
        Result("Jam", "Sweet", "https://jam.test", FILLER),
    ]

    found = await select("sourdough starter", results, 600)

    assert [one.url for one in found] == ["https://news.test", "https://jam.test"]
    assert "Sourdough needs a starter" in found[0].content
    assert found[0].content.startswith("…\n")
    assert cost(found) <= 600


async def test_a_better_result_comes_first() -> None:
    results = [Result(f"Page {n}", "", f"https://{n}.test", FILLER) for n in range(5)]
    results.append(Result("Sourdough", "Starters", "https://s.test", "Feed the sourdough starter."))

    found = await select("sourdough starter", results, 4096)

    assert [one.url for one in found] == ["https://s.test", *(f"https://{n}.test" for n in range(5))]


def cost(results: Sequence[Result]) -> int:
    return sum(HEAD + sum(map(tokens, (one.title, one.url, one.description, one.content))) for one in results)


_RESULT = st.builds(Result, st.text(max_size=30), st.text(max_size=100), st.text(max_size=30), st.text(max_size=500))


@given(st.text(max_size=30), st.lists(_RESULT, max_size=5), st.integers(0, 400))
async def test_no_more_is_shown_than_the_budget_has_room_for(query: str, results: list[Result], budget: int) -> None:
    found = await select(query, results, budget)

    assert cost(found) <= budget
    heads = [(one.title, one.description, one.url) for one in results]
    assert all((one.title, one.description, one.url) in heads for one in found)


async def test_embeddings_rank_the_best_passages_again() -> None:
    asked: list[Sequence[str]] = []

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        asked.append(texts)
        return [[1.0, 0.0] if "leaven" in text or text == "sourdough" else [0.0, 1.0] for text in texts]

    results = [
        Result("A", "", "https://a.test", "sourdough sourdough"),
        Result("B", "", "https://b.test", "leaven, which is the same"),
        *(Result("C", "", f"https://{n}.test", FILLER) for n in range(30)),
    ]

    plain = await select("sourdough", results, 8192)
    ranked = await select("sourdough", results, 8192, embed)

    assert [one.url for one in plain[:2]] == ["https://a.test", "https://b.test"]
    assert [one.url for one in ranked[:2]] == ["https://b.test", "https://a.test"]
    assert len(asked[0]) == 21


async def test_a_ranking_without_its_model_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(texts: Sequence[str]) -> list[list[float]]:
        raise OSError("no model")

    found = await select("x", [Result("A", "", "https://a.test", "x")], 4096, broken)

    assert [one.url for one in found] == ["https://a.test"]
    assert "without embeddings" in caplog.text


def test_a_passage_is_some_500_tokens() -> None:
    assert all(tokens(one) <= PASSAGE // 4 for one in passages(LONG))


# ---- embeddings of a service ------------------------------------------------------------------------------------------


async def test_vectors_are_asked_of_a_service(api: Api) -> None:
    vectors = [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0.5]}]
    api.answers["/v1/embeddings"] = web.json_response({"object": "list", "data": vectors})

    found = await ServiceEmbedder("mini", f"{api.url}/v1", "s3cret")(["bread", ""])

    assert found == [[1.0, 0.5], [0.0, 1.0]]
    assert msgspec.json.decode(api.last()["body"]) == {"model": "mini", "input": ["bread", " "]}
    assert api.last()["headers"]["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("answer", [{"data": []}, {"data": "x"}, {"data": [{"embedding": [0], "index": 0}] * 3}, []])
async def test_vectors_that_make_no_sense_are_not_used(
    api: Api, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    api.answers["/v1/embeddings"] = web.json_response(answer)
    results = [Result("A", "", "https://a.test", "bread")]

    found = await select("bread", results, 4096, ServiceEmbedder("mini", f"{api.url}/v1"))

    assert [one.url for one in found] == ["https://a.test"]
    assert "without embeddings" in caplog.text
