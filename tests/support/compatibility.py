"""What a change of an OpenAPI document breaks for clients that were written for the old one.

An answer may get more fields and never fewer, nor other kinds of values; a request may be allowed more and never less.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]
_UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "minLength", "minItems")


def breaks(old: Document, new: Document) -> list[str]:
    """Name each break, by where it is."""
    return list(dict.fromkeys(_Comparison(old, new).all()))


@dataclass
class _Comparison:
    old: Document
    new: Document

    def all(self) -> Iterator[str]:
        for path, operations in self.old["paths"].items():
            for method, before in operations.items():
                where = f"{method.upper()} {path}"
                after = self.new["paths"].get(path, {}).get(method)
                if after is None:
                    yield f"{where}: gone"
                else:
                    yield from self._parameters(where, before, after)
                    yield from self._bodies(where, before, after)
                    yield from self._answers(where, before, after)

    def _parameters(self, where: str, before: Document, after: Document) -> Iterator[str]:
        known = {(one["in"], one["name"]): one for one in before["parameters"]}
        now = {(one["in"], one["name"]): one for one in after["parameters"]}
        for key, one in now.items():
            if one.get("required") and not known.get(key, {}).get("required"):
                yield f"{where}: {key} is required now"
        for key, one in known.items():
            if key not in now:
                yield f"{where}: {key} is gone"
            else:
                yield from self._request(f"{where} {key}", one["schema"], now[key]["schema"], ())

    def _bodies(self, where: str, before: Document, after: Document) -> Iterator[str]:
        old, new = before.get("requestBody"), after.get("requestBody")
        if new and new.get("required") and not (old and old.get("required")):
            yield f"{where}: a body is required now"
        for kind, content in (old or {}).get("content", {}).items():
            if kind not in (new or {}).get("content", {}):
                yield f"{where}: no body of {kind} any more"
            else:
                yield from self._request(f"{where} body", content["schema"], new["content"][kind]["schema"], ())

    def _answers(self, where: str, before: Document, after: Document) -> Iterator[str]:
        for status, one in before["responses"].items():
            now = self._whole(self.new, after["responses"].get(status))
            if not status.startswith("2"):
                continue
            if now is None:
                yield f"{where}: no {status} any more"
                continue
            for kind, content in self._whole(self.old, one).get("content", {}).items():
                schema = now.get("content", {}).get(kind, {}).get("schema", {})
                yield from self._answer(f"{where} {status}", content["schema"], schema, ())

    def _request(self, where: str, old: Document, new: Document, seen: tuple[str, ...]) -> Iterator[str]:
        if (name := old.get("$ref", "")) in seen:
            return
        seen = (*seen, name) if name else seen
        before, after = self._whole(self.old, old), self._whole(self.new, new)
        if gone := self._types(self.old, before) - self._types(self.new, after):
            yield f"{where}: takes no {', '.join(sorted(gone))} any more"
        for bound in (*_UPPER, *_LOWER):
            sign = 1 if bound in _UPPER else -1
            if bound in after and (bound not in before or sign * after[bound] < sign * before[bound]):
                yield f"{where}: {bound} is narrower"
        if "enum" in after and set(before.get("enum", [None])) - set(after["enum"]):
            yield f"{where}: fewer words"
        if before.get("pattern") != after.get("pattern"):
            yield f"{where}: another pattern"
        if more := set(after.get("required", ())) - set(before.get("required", ())):
            yield f"{where}: {', '.join(sorted(more))} is required now"
        for key, one in before.get("properties", {}).items():
            if key not in after.get("properties", {}):
                yield f"{where}.{key}: gone"
            else:
                yield from self._request(f"{where}.{key}", one, after["properties"][key], seen)
        for one, other in self._parts(before, after):
            yield from self._request(where, one, other, seen)

    def _answer(self, where: str, old: Document, new: Document, seen: tuple[str, ...]) -> Iterator[str]:
        if (name := old.get("$ref", "")) in seen:
            return
        seen = (*seen, name) if name else seen
        before, after = self._whole(self.old, old), self._whole(self.new, new)
        if more := self._types(self.new, after) - self._types(self.old, before):
            yield f"{where}: may be {', '.join(sorted(more))} now"
        if fewer := set(before.get("required", ())) - set(after.get("required", ())):
            yield f"{where}: {', '.join(sorted(fewer))} may be missing now"
        for key, one in before.get("properties", {}).items():
            if key not in after.get("properties", {}):
                yield f"{where}.{key}: gone"
            else:
                yield from self._answer(f"{where}.{key}", one, after["properties"][key], seen)
        for one, other in self._parts(before, after):
            yield from self._answer(where, one, other, seen)

    def _parts(self, before: Document, after: Document) -> Iterator[tuple[Document, Document]]:
        """Elements of lists, and alternatives of the same kind."""
        if "items" in before and "items" in after:
            yield before["items"], after["items"]
        now = {frozenset(self._types(self.new, one)): one for one in after.get("anyOf", ())}
        for one in before.get("anyOf", ()):
            if other := now.get(frozenset(self._types(self.old, one))):
                yield one, other

    def _types(self, document: Document, schema: Document) -> set[str]:
        whole = self._whole(document, schema)
        if "anyOf" in whole:
            return {kind for one in whole["anyOf"] for kind in self._types(document, one)}
        kinds = whole.get("type", "anything")
        return {kinds} if isinstance(kinds, str) else set(kinds)

    def _whole(self, document: Document, schema: Any) -> Any:
        while schema and "$ref" in schema:
            found: Any = document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema
