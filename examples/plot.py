"""Asks a server for a plot, and saves the picture that comes of it.

ronda serve --agent --model script:examples/plot.json      # in another terminal; any real model will do
python examples/plot.py
"""

import json
import sys
from urllib.request import Request, urlopen

server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234"
question = "Plot the temperature in each month of the year, and save the plot as a PNG."
body = {"messages": [{"role": "user", "content": question}], "enable_code_execution": True}

with urlopen(
    Request(f"{server}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
) as reply:
    answer = json.load(reply)

print(answer["choices"][0]["message"]["content"])
for file in answer.get("files", []):
    with urlopen(f"{server}/v1/files/{file['id']}/content") as content, open(file["name"], "wb") as saved:
        saved.write(content.read())
    print(f"saved {file['name']}: {file['bytes']} bytes")
