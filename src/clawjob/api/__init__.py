"""The HTTP API: routes, strict reading of requests, problem details."""
