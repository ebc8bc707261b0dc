from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.schema.docstring import Docstring, parse


@pytest.mark.parametrize("text", [None, "", "   \n "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert parse(text) == Docstring("", {})


def test_text_in_no_known_style_is_all_description() -> None:
    text = """Look it up.

        Args: this sentence only begins like a section.

        Note:
            Keep this.
        """

    assert parse(text) == Docstring(
        "Look it up.\n\nArgs: this sentence only begins like a section.\n\nNote:\n    Keep this.", {}
    )


@pytest.mark.parametrize("title", ["Args", "Arguments", "Parameters", "args", "Keyword Args"])
def test_google_sections_are_read_and_taken_out(title: str) -> None:
    text = f"""Read a web page.

        Follows redirects.

        {title}:
            url: Absolute http or https address.
            max_chars (int, optional): Cut the text after
                this many characters: no more.
            *rest: More of them.
            **options: Passed on.

        Returns:
            str: The text.
        """

    assert parse(text) == Docstring(
        "Read a web page.\n\nFollows redirects.\n\nReturns:\n    str: The text.",
        {
            "url": "Absolute http or https address.",
            "max_chars": "Cut the text after this many characters: no more.",
            "rest": "More of them.",
            "options": "Passed on.",
        },
    )


def test_a_google_item_may_begin_on_the_next_line_and_have_paragraphs() -> None:
    text = """Do.

    Args:
        a:
            First.

            Second.
        b: Last.
    Raises:
        ValueError: Never.
    """

    assert parse(text) == Docstring("Do.\n\nRaises:\n    ValueError: Never.", {"a": "First. Second.", "b": "Last."})


def test_numpy_sections_are_read_and_taken_out() -> None:
    text = """Move a point.

        Parameters
        ----------
        x, y : float
            Where to.
        speed : {'slow', 'fast'}, optional
            How fast.

            Default: slow.
        untyped
            Anything.
        silent : bool

        Returns
        -------
        bool
            If it moved.
        """

    assert parse(text) == Docstring(
        "Move a point.\n\nReturns\n-------\nbool\n    If it moved.",
        {"x": "Where to.", "y": "Where to.", "speed": "How fast. Default: slow.", "untyped": "Anything."},
    )


def test_prose_after_a_numpy_section_stays() -> None:
    text = "Do.\n\nParameters\n----------\na : int\n    A.\n\nThis goes on, with punctuation."

    assert parse(text) == Docstring("Do.\n\nThis goes on, with punctuation.", {"a": "A."})


def test_sphinx_fields_are_read_and_taken_out() -> None:
    text = """Send a message.

        :param to: The address,
            or several.
        :param str body: What to say.
        :type to: str
        :param int | None retries: How often: at most.
        :rtype: bool
        :returns: If it was sent.
        """

    assert parse(text) == Docstring(
        "Send a message.\n\n:returns: If it was sent.",
        {"to": "The address, or several.", "body": "What to say.", "retries": "How often: at most."},
    )


def test_a_docstring_that_is_only_parameters_has_no_description() -> None:
    assert parse("\n    Args:\n        a: A.\n    ") == Docstring("", {"a": "A."})


@given(st.text(st.sampled_from("Args:\n -x*(),parm")) | st.text())
def test_no_docstring_makes_it_raise(text: str) -> None:
    parse(text)
