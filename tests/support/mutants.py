"""Wrong versions of the code: a module is compiled anew with one text replaced, and lends its code to the right one."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType

import pytest

from support.world import World


@dataclass(frozen=True, slots=True)
class Mutant:
    """One thing done wrong."""

    name: str
    module: str
    old: str
    """Text of the right code; must be there exactly `times` times."""
    new: str
    caught: Callable[[World], list[str]]
    """What finds it: its problems with this world; empty when it finds nothing."""
    times: int = 1

    def put_in_place(self, patch: pytest.MonkeyPatch) -> None:
        """Give every function and method of the module the code of the wrong version."""
        module = sys.modules[self.module]
        source = inspect.getsource(module)
        found = source.count(self.old)
        assert found == self.times, f"{self.name}: the text is {found} times in {self.module}, not {self.times} times"
        wrong = ModuleType(self.module)
        wrong.__file__ = module.__file__
        # Beside the right one only while it is made: dataclasses look their module up.
        patch.setitem(sys.modules, self.module, wrong)
        exec(compile(source.replace(self.old, self.new), f"<{self.name}>", "exec"), wrong.__dict__)
        patch.setitem(sys.modules, self.module, module)
        _exchange(vars(module), vars(wrong), self.module, patch)


def _exchange(right: dict[str, object], wrong: dict[str, object], module: str, patch: pytest.MonkeyPatch) -> None:
    for name, old in right.items():
        new = wrong.get(name)
        if isinstance(old, FunctionType) and isinstance(new, FunctionType) and old.__module__ == module:
            _lend(old, new, patch)
        elif isinstance(old, type) and isinstance(new, type) and old.__module__ == module:
            for method, own in list(vars(old).items()):
                other = vars(new).get(method)
                if isinstance(own, FunctionType) and isinstance(other, FunctionType) and own.__closure__ is None:
                    _lend(own, other, patch)


def _lend(old: FunctionType, new: FunctionType, patch: pytest.MonkeyPatch) -> None:
    # The code, not the function: who imported the function by name runs the wrong version too, with the right globals.
    if old.__code__ != new.__code__:
        patch.setattr(old, "__code__", new.__code__)
