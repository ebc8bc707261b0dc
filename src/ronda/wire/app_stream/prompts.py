"""What is asked for → the conversation that each variant begins with.

create                     instructions, and one message with what the page is to be
update with history        instructions, and what was said so far; the client has put the new wish at its end
update of a file only     instructions, and one message with the file and the wish
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ronda.core.parts import AssistantTurn, Image, SystemTurn, Text, Turn, UserPart, UserTurn, Video
from ronda.wire.app_stream.html import page_in
from ronda.wire.app_stream.parameters import BadParameters, Message, PageFile, Parameters
from ronda.wire.app_stream.stacks import STACKS

_INSTRUCTIONS: Final = """\
You build web pages. The user shows you a picture, a film or a description of a page, or asks for a change of one, and you
write it.

How you work:
- The page is one file, index.html, that runs in a browser as it is. Write it with create_file, the whole
  document from <!DOCTYPE html> on.
- Change a page that exists with edit_file. Copy old_text letter by letter from the file; put several changes into
  one call with `edits`. Write the whole file again only where nearly all of it changes.
- Never put the page's code into your answer: only what tools write counts.
- Before you write, say in a sentence or two what you are going to do. When you are done, say in one or
  two sentences what there is now.
- If you can take screenshots, look at the page once when it is written, and correct what is wrong. Stop when it is right.
- retrieve_option reads another version of the page, if the user speaks of one ("as in option 2").

What a good page is:
- Complete: write everything out, with every row, card and text. Never leave a comment such as "more items here" in its place.
- True to its model: take texts, colours, sizes, spacing and order from the picture or film as they are.
- Usable on a wide screen and on a phone, with real headings, labels and alternative texts.
- Free of invented functions: buttons and links do what the description says, and nothing else.
"""

_CREATE: Final = {
    "image": "Build a page that looks exactly like the pictures. If there are several, they show one page, or pages of one app.",
    "video": (
        "The film shows a person using a web app. Build that app: all the screens and states that the film shows, with the "
        "behaviour that can be seen in it, and the same texts, data and order."
    ),
    "text": "Build a page from this description. Choose a clear and modern look where the description leaves it open.",
}


def begin_turns(parameters: Parameters, assets: Mapping[str, str]) -> tuple[Turn, ...]:
    """`assets` are the ids under which pictures are kept, by their data URLs."""
    policy = _policy(parameters)
    system = SystemTurn(_INSTRUCTIONS)
    if parameters.generation_type == "create":
        wish = parameters.prompt.text.strip()
        text = "\n\n".join(
            filter(None, [_CREATE[parameters.input_mode], policy, wish and f"<request>\n{wish}\n</request>"])
        )
        return system, _user_turn(parameters.prompt, text, assets)
    if parameters.history:
        return system, *_history_turns(parameters, policy, assets)
    if parameters.file is None:
        raise BadParameters(
            "Error assembling prompt: an update needs the history of the page, or its current file.", param="fileState"
        )
    text = f"{policy}\n\n{_current(parameters.file)}\n\n<change_request>\n{parameters.prompt.text}\n</change_request>"
    return system, _user_turn(parameters.prompt, text, assets)


def _policy(parameters: Parameters) -> str:
    """What holds for every page of this request."""
    parts = [STACKS[parameters.stack]]
    if parameters.image_generation:
        parts.append(
            "Pictures: where the page needs pictures that you do not have, make them with generate_images and use their "
            "addresses."
        )
    else:
        parts.append(
            "Pictures: you cannot make any. Where the page needs one, use a placeholder from https://placehold.co in the right "
            "size, with a description of the picture as its alternative text."
        )
    if parameters.design_system:
        parts.append(
            f"Follow this design system of the user's:\n<design_system>\n{parameters.design_system}\n</design_system>"
        )
    return "\n\n".join(parts)


def _history_turns(parameters: Parameters, policy: str, assets: Mapping[str, str]) -> list[Turn]:
    turns: list[Turn] = []
    has_policy = False
    for message in parameters.history:
        if message.role == "assistant":
            turns.append(AssistantTurn((Text(message.text or "(nothing)"),)))
            continue
        text = message.text if has_policy else f"{policy}\n\n{message.text}"
        has_policy = True
        turns.append(_user_turn(message, text, assets))
    if not has_policy:  # of a client that says what it wants in `prompt` only
        turns.append(_user_turn(parameters.prompt, f"{policy}\n\n{parameters.prompt.text}", assets))
    file, last = parameters.file, turns[-1]
    code = next((message.text for message in reversed(parameters.history) if message.role == "assistant"), "")
    if file is not None and isinstance(last, UserTurn) and file.content.strip() != code.strip():
        # The user changed it by hand since, or what was said before was no page.
        turns[-1] = UserTurn((*last.parts, Text(_current(file))))
    return turns


def first_file(parameters: Parameters) -> PageFile | None:
    """The page as it is before anything happens."""
    if parameters.file is not None or parameters.generation_type == "create":
        return parameters.file
    for message in reversed(parameters.history):
        if message.role == "assistant" and (code := page_in(message.text)) is not None:
            return PageFile("index.html", code)
    return None


def _current(file: PageFile) -> str:
    return f'<current_file path="{file.path}">\n{file.content}\n</current_file>'


def _user_turn(message: Message, text: str, assets: Mapping[str, str]) -> UserTurn:
    known_images = [(number, assets[url]) for number, url in enumerate(message.images, 1) if url in assets]
    if known_images:
        lines = [f"- picture {number}: {image_id}" for number, image_id in known_images]
        note = "These pictures are kept as assets. To show one on the page itself, save it with save_assets and use its address:"
        text = "\n".join([text, "", note, *lines])
    media: list[UserPart] = [*[Image(url) for url in message.images], *[Video(url) for url in message.videos]]
    return UserTurn((*media, Text(text)))
