"""The shop that shop.prompty talks to: one article, over HTTP. `python shop_server.py [PORT]`."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ARTICLES = {"teapot": {"name": "teapot", "price": 24, "left": 7}}


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        article = ARTICLES.get(self.path.removeprefix("/articles/"))
        body = json.dumps(article or {"error": "there is no such article"}).encode()
        self.send_response(200 if article else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, template: str, *args: object) -> None:
        return


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8123
    with ThreadingHTTPServer(("127.0.0.1", port), Shop) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
