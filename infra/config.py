"""What a stage of the stack is like: built-in stages, what `cdk.json` says about them, and what `-c key=value` gives.

One validated model; a key that it does not know is refused with the nearest one that it does.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clawjob.domain.times import Times
from clawjob.settings import times_text

POOL_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$"

_FARGATE: Final = {
    256: range(512, 2049, 512),
    512: range(1024, 4097, 1024),
    1024: range(2048, 8193, 1024),
    2048: range(4096, 16_385, 1024),
    4096: range(8192, 30_721, 1024),
    8192: range(16_384, 61_441, 4096),
    16_384: range(32_768, 122_881, 8192),
}
"""Sizes of memory in MiB that Fargate has, by processor units."""


class ConfigError(Exception):
    """A stage cannot be made of what was given; the text names each key and the remedy."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PoolConfig(_Model):
    """Workers that share image, size and queues."""

    name: str = Field("default", pattern=POOL_PATTERN)
    slots: int = Field(5, ge=1, le=100, description="Runs at once in one worker.")
    cpu: int = Field(1024, description="Of each worker, in 1/1024 of a processor.")
    memory_mib: int = Field(2048, ge=512, le=122_880)
    minimum: int = Field(1, ge=0, le=100, description="Workers that always run; with 0 an idle pool costs nothing.")
    maximum: int = Field(12, ge=1, le=1000)
    spot_share: int = Field(0, ge=0, le=100, description="Percent of the workers above the minimum on Fargate Spot.")
    image: str = Field("", description="Image URI; empty: the stack's own repository, with the tag it is told.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}")
        sizes = _FARGATE.get(self.cpu)
        if sizes is None:
            raise ValueError(f"cpu {self.cpu} is none of Fargate's: {', '.join(map(str, _FARGATE))}")
        if self.memory_mib not in sizes:
            raise ValueError(
                f"memory_mib {self.memory_mib}: with cpu {self.cpu} Fargate has {sizes[0]} to {sizes[-1]}"
                f" in steps of {sizes.step}"
            )
        return self


class StageConfig(_Model):
    """One stage: one stack, `clawjob-<stage>`."""

    stage: str = Field(pattern=r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$")
    region: str = Field("", pattern=r"^([a-z]{2}(-[a-z]+)+-[0-9])?$", description="Empty: that of the credentials.")
    python: Literal["3.11", "3.12", "3.13", "3.14"] = "3.14"
    platform: Literal["arm64", "host"] = Field("arm64", description="`host`: functions run on this machine.")
    protect_data: bool = Field(False, description="Table, bucket and images outlive the stack and cannot be deleted.")
    log_retention_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = 14
    run_retention_days: int = Field(30, ge=1, le=3650, description="How long runs that end from now on are kept.")
    output_retention_days: int = Field(30, ge=1, le=3650, description="How long big logs and outputs are kept.")
    api_rate: int = Field(50, ge=1, le=10_000, description="Requests a second.")
    api_burst: int = Field(100, ge=1, le=5_000)
    cors_origins: tuple[str, ...] = Field((), description="Web pages that may call the API; none by default.")
    workers: bool = True
    pools: tuple[PoolConfig, ...] = (PoolConfig(),)
    scale_out_backlog: int = Field(5000, ge=1, description="Waiting runs of a pool that add workers.")
    scale_out_age_seconds: int = Field(300, ge=60, description="Age of the oldest waiting run that adds workers.")
    vpc_id: str = Field("", pattern=r"^(vpc-[0-9a-f]+)?$", description="Empty: a small one of its own, without NAT.")
    subnet_ids: tuple[str, ...] = Field((), description="Of `vpc_id`: where workers run.")
    public_ip: bool = Field(True, description="Workers get public addresses; not in subnets with a NAT of their own.")
    interface_endpoints: bool = Field(
        False, description="Private ways to SQS, Logs and the registry; about $7 a month each."
    )
    monitoring: bool = True
    alarm_email: str = Field("", pattern=r"^([^@\s]+@[^@\s]+)?$")
    budget_usd: int = Field(0, ge=0, description="A month; a mail at 80 % and 100 %. 0: no budget.")
    canary: bool = True
    accept_schedule_changes: bool = Field(False, description="Let a scheduler through that decides otherwise.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [pool.name for pool in self.pools]
        if not names or len(set(names)) != len(names):
            raise ValueError("pools needs one or more entries with different names")
        if self.budget_usd and not self.alarm_email:
            raise ValueError("budget_usd needs alarm_email, where its mails go")
        if bool(self.vpc_id) != bool(self.subnet_ids):
            raise ValueError("vpc_id and subnet_ids go together: name the subnets in which workers run")
        if not self.public_ip and not self.vpc_id:
            raise ValueError("public_ip false needs vpc_id: the network of our own has no NAT, so no other way out")
        if self.canary and not self.monitoring:
            raise ValueError("canary needs monitoring: its alarms roll back")
        return self

    @property
    def stack_name(self) -> str:
        """Name of the stack, and of everything that must tell two stages apart."""
        return f"clawjob-{self.stage}"

    @property
    def times_variables(self) -> dict[str, str]:
        """What tells a component this stage's times; nothing where they are the default ones."""
        text = times_text(replace(Times(), retention=timedelta(days=self.run_retention_days)))
        return {"CLAWJOB_TIMES": text} if text else {}


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "dev": {"canary": False, "pools": [{"minimum": 0, "spot_share": 100}]},
    "prod": {
        "protect_data": True,
        "log_retention_days": 30,
        "run_retention_days": 90,
        "pools": [{"minimum": 1, "spot_share": 70}],
    },
    "emulator": {"platform": "host", "workers": False, "monitoring": False, "canary": False},
}
DEFAULT_STAGE: Final = "dev"
_AS_JSON: Final = {
    "pools": '[{"name": "default", "maximum": 20}]',
    "cors_origins": '["https://example.org"]',
    "subnet_ids": '["subnet-0abc1234", "subnet-0def5678"]',
    "log_retention_days": "14",
}
"""Keys whose text must be read as JSON, with an example of each."""
_OTHER_KEYS: Final = frozenset({"stage", "preset", "stages"})


def stage_config(context: Mapping[str, Any]) -> StageConfig:
    """Make the stage that the CDK's context describes.

    `stage` chooses it; a stage with a name of its own says by `preset` which built-in one it is like. Over the preset
    go the stage's entry in `stages` (in cdk.json), and over that the keys given by `-c`.

    Args:
        context: all of the app's context. The CDK's own keys, which hold `@` or `:`, are left alone.

    Raises:
        ConfigError: names each key that is unknown or wrong.
    """
    given = {key: value for key, value in context.items() if "@" not in key and ":" not in key}
    stage = str(given.get("stage") or DEFAULT_STAGE)
    kept = _object("stages", given.get("stages") or {})
    in_file = _object(f"stages.{stage}", kept.get(stage, {}))
    options = {key: _read(key, value) for key, value in given.items() if key not in _OTHER_KEYS}
    preset = str(given.get("preset") or in_file.get("preset") or stage)
    if preset not in PRESETS:
        key = "preset" if "preset" in given or "preset" in in_file else "stage"
        remedy = "" if key == "preset" else " For a stage of your own add -c preset=dev or -c preset=prod."
        raise ConfigError(f"{key}: there is no {preset!r}.{_nearest(preset, PRESETS)}{remedy}")
    values = {**PRESETS[preset], **{key: value for key, value in in_file.items() if key != "preset"}, **options}
    try:
        return StageConfig(stage=stage, **values)
    except ValidationError as error:
        raise ConfigError("\n".join(_problem(one) for one in error.errors())) from error


def _read(key: str, value: Any) -> Any:
    """What `-c` gives is text: of a list it is JSON, and of a number it is the number."""
    if not isinstance(value, str) or key not in _AS_JSON:
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ConfigError(f"{key}: {value!r} cannot be read. Give JSON, such as {_AS_JSON[key]}.") from error


def _object(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key}: it must be an object.")
    return value


def _problem(error: Any) -> str:
    path = [str(part) for part in error["loc"]]
    if error["type"] == "extra_forbidden":
        known = PoolConfig.model_fields if path[0] == "pools" and len(path) > 1 else StageConfig.model_fields
        return f"{'.'.join(path)}: there is no such key.{_nearest(path[-1], known)}"
    text = str(error["msg"]).removeprefix("Value error, ")
    return f"{'.'.join(path)}: {text}" if path else text


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else f" Known are {', '.join(known)}."
