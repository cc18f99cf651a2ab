"""A small bookshop on 127.0.0.1 for spiders to crawl: slow enough that one can watch, and always the same 24 books.

    python site.py [--port 8000] [--seconds 0.25]

Its first line says where it listens; it ends with its parent's end of stdin when started with `--watch-stdin`.
"""

import argparse
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGES = 3
PER_PAGE = 8
BOOKS = [f"Book {number:02}" for number in range(1, PAGES * PER_PAGE + 1)]


def list_page(page: int) -> str:
    first = (page - 1) * PER_PAGE
    links = "".join(
        f'<li><a class="book" href="/book/{number}">{title}</a></li>'
        for number, title in enumerate(BOOKS[first : first + PER_PAGE], first + 1)
    )
    following = f'<a class="next" href="/?page={page + 1}">next</a>' if page < PAGES else ""
    return f"<html><body><h1>Bookshop, page {page}</h1><ul>{links}</ul>{following}</body></html>"


def book_page(number: int) -> str:
    price = 5 + number * 7 % 20
    return f'<html><body><h1>{BOOKS[number - 1]}</h1><p class="price">{price}.00</p></body></html>'


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seconds = 0.25

    def do_GET(self) -> None:
        page = self.page()
        if page is not None:
            time.sleep(self.seconds)
        body = (page or "<html><body>not here</body></html>").encode()
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def page(self) -> str | None:
        if self.path == "/":
            return list_page(1)
        kind, _, number = self.path.rpartition("=" if self.path.startswith("/?page=") else "/")
        if not number.isascii() or not number.isdigit():
            return None
        if kind == "/?page" and 1 <= int(number) <= PAGES:
            return list_page(int(number))
        if kind == "/book" and 1 <= int(number) <= len(BOOKS):
            return book_page(int(number))
        return None

    def log_message(self, *_: object) -> None:
        pass


def end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="a small bookshop for spiders to crawl")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--seconds", type=float, default=Shop.seconds, help="time that a page takes")
    parser.add_argument("--watch-stdin", action="store_true", help="end when stdin ends")
    options = parser.parse_args()
    Shop.seconds = options.seconds
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Shop)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    if options.watch_stdin:
        threading.Thread(target=end_with_stdin, daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
