"""The reference of the API as a page, `/docs`: nothing on it is loaded from outside this machine.

Its program is Swagger UI, from a package of the one-machine mode; without that package there is no page.
"""

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from clawjob.dev.loopback import Request, Response

PATH: Final = "/docs"
_FILES: Final = {"swagger-ui.css": "text/css; charset=utf-8", "swagger-ui-bundle.js": "text/javascript; charset=utf-8"}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>clawjob API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="data:,">
</head>
<body>
<div id="page"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START: Final = """SwaggerUIBundle({
  url: "/docs/openapi.json",
  dom_id: "#page",
  deepLinking: true,
  tryItOutEnabled: true,
  // Else a service on the Internet is asked whether the document is good.
  validatorUrl: null,
});
"""
# Styles and pictures stand in the program itself.
_POLICY: Final = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'"


class DocsPages:
    """Answers `/docs` and what belongs to it."""

    def __init__(self, describe: Callable[[], Mapping[str, Any]]) -> None:
        """Make it for an API.

        Args:
            describe: gives its OpenAPI document.
        """
        self._describe = describe
        found = find_spec("swagger_ui")
        places = (found.submodule_search_locations if found else None) or []
        self._folder = Path(places[0]) / "static" if places else None

    def answer(self, request: Request) -> Response | None:
        """Answer a request; None for one that is not about these pages."""
        path = request.target.partition("?")[0].rstrip("/")
        if request.method != "GET" or (path != PATH and not path.startswith(f"{PATH}/")):
            return None
        if self._folder is None:
            return _text(404, "text/plain; charset=utf-8", "Install clawjob[dev] for this page.\n")
        name = path.removeprefix(PATH).removeprefix("/")
        if not name:
            return _text(200, "text/html; charset=utf-8", _PAGE)
        if name == "start.js":
            return _text(200, "text/javascript; charset=utf-8", _START)
        if name == "openapi.json":
            return _text(200, "application/json", json.dumps(self._describe()))
        if name in _FILES:
            return _text(200, _FILES[name], (self._folder / name).read_text("utf-8"))
        return _text(404, "text/plain; charset=utf-8", "There is no such page.\n")


def _text(status: int, media_type: str, text: str) -> Response:
    headers = (
        ("content-type", media_type),
        ("content-security-policy", _POLICY),
        ("x-content-type-options", "nosniff"),
    )
    return Response(status, headers, text.encode())
