"""Two variants of a web page, built side by side. Each model writes its page, looks at a picture of it, and improves it.

python examples/page_variants.py [FOLDER]       # saves the pages and the pictures there

The models play a script, so this works without a network; a real model is `Agent(model="openai:…", tools=…)`. Pictures need a
Chromium: 'ronda doctor' tells whether there is one.
"""

import asyncio
import base64
import sys
from pathlib import Path

from ronda import Agent, run_agent_async
from ronda.core.parts import Image, ToolTurn
from ronda.testing import Call, ScriptedModel, calls, says
from ronda.tools.page import PageProject, PageServices, open_page_services, page_tools

PAGE = """<!DOCTYPE html>
<html>
<head><title>Departures</title><style>body {{ background: {colour}; color: {colour}; font: 20px sans-serif }}</style></head>
<body><h1>Departures</h1><p>Tram 7 leaves in 3 minutes.</p></body>
</html>"""


def script(colour: str, better: str) -> ScriptedModel:
    """It writes in the colour of the background, sees that nothing can be read, and chooses another."""
    return ScriptedModel(
        calls(Call("create_file", {"path": "index.html", "content": PAGE.format(colour=colour)})),
        calls(Call("screenshot_preview", {})),
        calls(Call("edit_file", {"old_text": f"; color: {colour}", "new_text": f"; color: {better}"})),
        calls(Call("screenshot_preview", {})),
        says("The text can be read now."),
    )


async def build(name: str, model: ScriptedModel, services: PageServices, folder: Path) -> None:
    project = PageProject()
    result = await run_agent_async(
        Agent(model=model, tools=page_tools(project, services)), "A board of tram departures."
    )
    (folder / f"{name}.html").write_text(project.code)
    shown = [turn for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    pictures = [part for turn in shown for part in turn.results[0].attachments if isinstance(part, Image)]
    for number, picture in enumerate(pictures):  # on a desktop and on a phone, before and after
        (folder / f"{name}-{number}.png").write_bytes(base64.b64decode(picture.url.partition(",")[2]))
    print(f"{name}: {result.output} {len(project.code)} characters, {len(pictures)} pictures")


async def main(folder: Path) -> None:
    services = open_page_services(None)
    async with asyncio.TaskGroup() as variants:
        variants.create_task(build("light", script("#f4f1ea", "#222"), services, folder))
        variants.create_task(build("dark", script("#123", "#fff"), services, folder))
    await services.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
