"""Templates of the stack as plain dicts, each synthesized once in a process."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import infra

Resource = Mapping[str, Any]


class Template:
    """One synthesized stack."""

    def __init__(self, body: Mapping[str, Any], path: Path) -> None:
        self.body = body
        self.path = path
        """The file that `cdk deploy` would send."""

    @property
    def resources(self) -> Mapping[str, Resource]:
        """All resources by logical id."""
        return self.body["Resources"]  # type: ignore[no-any-return]

    def of_type(self, kind: str) -> dict[str, Resource]:
        """Resources of a type, such as `AWS::SQS::Queue`, by logical id."""
        return {key: one for key, one in self.resources.items() if one["Type"] == kind}

    def properties(self, kind: str) -> list[Mapping[str, Any]]:
        """Properties of each resource of a type."""
        return [one.get("Properties", {}) for one in self.of_type(kind).values()]

    def one(self, kind: str, beginning: str = "") -> Mapping[str, Any]:
        """Properties of the only resource of a type whose logical id begins so."""
        found = [one["Properties"] for key, one in self.of_type(kind).items() if key.startswith(beginning)]
        assert len(found) == 1, f"{len(found)} of {kind} {beginning}"
        return found[0]  # type: ignore[no-any-return]


def template(**context: Any) -> Template:
    """Synthesize what `cdk synth -c key=value ...` would; lists and objects are given as such.

    The first takes about ten seconds, for the CDK itself; each further one milliseconds.
    """
    return _template(json.dumps(context, sort_keys=True))


def everywhere(value: Any) -> Iterator[Any]:
    """All values in a template, however deep."""
    yield value
    if isinstance(value, Mapping):
        for one in value.values():
            yield from everywhere(one)
    elif isinstance(value, list):
        for one in value:
            yield from everywhere(one)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="clawjob-stacks-")


@cache
def _template(context: str) -> Template:
    from aws_cdk import App

    from infra.config import stage_config
    from infra.stack import ClawjobStack

    folder = Path(_folder().name) / f"stack-{len(list(Path(_folder().name).iterdir()))}"
    file_context = json.loads((Path(infra.__file__).parents[1] / "cdk.json").read_text("utf-8"))["context"]
    app = App(outdir=str(folder), context=file_context)
    stack = ClawjobStack(app, stage_config({**file_context, **json.loads(context)}))
    path = Path(app.synth().get_stack_by_name(stack.stack_name).template_full_path)
    return Template(json.loads(path.read_text("utf-8")), path)
