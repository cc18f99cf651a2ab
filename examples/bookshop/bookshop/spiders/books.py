"""One spider: every book of the shop, page after page."""

import scrapy


class BooksSpider(scrapy.Spider):
    name = "books"

    def __init__(self, site="http://127.0.0.1:8000", **options):
        super().__init__(**options)
        self.start_urls = [site]

    def parse(self, response):
        yield from response.follow_all(css="a.book", callback=self.parse_book)
        yield from response.follow_all(css="a.next", callback=self.parse)

    def parse_book(self, response):
        yield {
            "title": response.css("h1::text").get(),
            "price": float(response.css("p.price::text").get()),
        }
