"""The control plane: scheduler by a rule each minute, results by their queue, API behind an authorizer.

Every function has a version and the alias `live`, a log group with retention, and a role that allows what it calls.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import jsii
from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from clawjob.aws.deployments import LIVE
from infra.authority import statements
from infra.bundle import bundle_folder
from infra.config import StageConfig
from infra.data import RESULTS_TIMEOUT, Data
from infra.log_groups import make_log_group

HEALTH: Final = "/api/v1/health"
AUTHORIZER_CACHE: Final = Duration.seconds(60)
"""How long a revoked token may still be taken."""


@jsii.implements(gateway.IAccessLogSettings)
class _AccessLog:
    """One line of JSON for each request."""

    def __init__(self, group: logs.LogGroup) -> None:
        self._group = group

    @property
    def destination(self) -> gateway.IAccessLogDestination:
        return cast(gateway.IAccessLogDestination, gateway.LogGroupLogDestination(self._group))

    @property
    def format(self) -> apigateway.AccessLogFormat:
        fields = ("requestId", "identity.sourceIp", "requestTime", "httpMethod", "path", "status", "responseLatency")
        return apigateway.AccessLogFormat.custom(json.dumps({name: f"$context.{name}" for name in fields}))


@dataclass(frozen=True, slots=True)
class Component:
    """One function as others see it."""

    function: lambda_.Function
    alias: lambda_.Alias
    log_group: logs.LogGroup


class Control(Construct):
    """Scheduler, results, API and authorizer, and what calls them."""

    def __init__(self, scope: Construct, name: str, config: StageConfig, data: Data) -> None:
        super().__init__(scope, name)
        self._config = config
        self._data = data
        self._code = lambda_.Code.from_asset(str(bundle_folder(config)))
        self.scheduler = self._make("scheduler", Duration.seconds(50), 512)
        self.results = self._make("results", RESULTS_TIMEOUT, 512)
        # The gateway gives up after 30 s.
        self.api = self._make(
            "api",
            Duration.seconds(29),
            1024,
            CLAWJOB_LOG_GROUP=data.run_log_group.log_group_name,
            CLAWJOB_DEAD_TICKS=data.dead_queues["ticks"].queue_url,
        )
        self.authorizer = self._make("authorizer", Duration.seconds(5), 512)
        self.rule = self._tick_each_minute()
        self._count_each_hour()
        self._feed_results()
        self.http_api = self._make_http_api()

    def _make(self, name: str, timeout: Duration, memory_mib: int, **variables: str) -> Component:
        scope = Construct(self, name.capitalize())
        function, log_group = self.make_function(scope, name, timeout, memory_mib, **variables)
        # Only ticks are events that Lambda itself would repeat; the next one comes in a minute anyway.
        alias = lambda_.Alias(scope, "Live", alias_name=LIVE, version=function.current_version, retry_attempts=0)
        return Component(function, alias, log_group)

    def make_function(
        self, scope: Construct, name: str, timeout: Duration, memory_mib: int, **variables: str
    ) -> tuple[lambda_.Function, logs.LogGroup]:
        """Make a function of the stage's bundle, with its log group and a role that allows what it calls.

        Args:
            scope: holds all of it.
            name: its folder in `functions`.
            timeout: of a call.
            memory_mib: the processor comes with it.
            variables: more than every function has.
        """
        config, data, stack = self._config, self._data, Stack.of(self)
        log_group = make_log_group(scope, "Logs", config)
        # A role without the managed policy, which allows every log group.
        role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        for statement in statements(name, data, log_group):
            role.add_to_policy(statement)
        function = lambda_.Function(
            scope,
            "Function",
            code=self._code,
            handler=f"functions.{name}.handler.handler",
            runtime=lambda_.Runtime(f"python{config.python}", lambda_.RuntimeFamily.PYTHON),
            architecture=lambda_.Architecture.ARM_64,
            role=role,
            timeout=timeout,
            memory_size=memory_mib,
            log_group=log_group,
            environment={
                "CLAWJOB_TABLE": data.table.table_name,
                "CLAWJOB_RUN_QUEUES": stack.to_json_string(data.run_queue_urls()),
                "CLAWJOB_RESULTS_QUEUE": data.results_queue.queue_url,
                "CLAWJOB_NAMESPACE": config.stack_name,
                **config.times_variables,
                **variables,
            },
            # The way back at once is the alias on an earlier version.
            current_version_options=lambda_.VersionOptions(removal_policy=RemovalPolicy.RETAIN),
        )
        return function, log_group

    def _tick_each_minute(self) -> events.Rule:
        target = targets.LambdaFunction(
            self.scheduler.alias,
            retry_attempts=2,
            max_event_age=Duration.seconds(60),
            dead_letter_queue=self._data.dead_queues["ticks"],
        )
        return events.Rule(self, "Tick", schedule=events.Schedule.rate(Duration.minutes(1)), targets=[target])

    def _count_each_hour(self) -> None:
        """Count the active jobs: apart from the ticks, whose work must not grow with the number of jobs."""
        event = events.RuleTargetInput.from_object({"count": True})
        target = targets.LambdaFunction(self.scheduler.alias, event=event, retry_attempts=0)
        events.Rule(self, "Count", schedule=events.Schedule.rate(Duration.hours(1)), targets=[target])

    def _feed_results(self) -> None:
        lambda_.EventSourceMapping(
            self,
            "ResultsFeed",
            target=self.results.alias,
            event_source_arn=self._data.results_queue.queue_arn,
            batch_size=10,
            max_batching_window=Duration.seconds(1),
            max_concurrency=10,
            report_batch_item_failures=True,
        )

    def _make_http_api(self) -> gateway.HttpApi:
        config = self._config
        cors: Mapping[str, Any] = {}
        if config.cors_origins:
            methods = gateway.CorsHttpMethod
            cors = {
                "cors_preflight": gateway.CorsPreflightOptions(
                    allow_origins=list(config.cors_origins),
                    allow_headers=["authorization", "content-type", "if-match", "idempotency-key"],
                    allow_methods=[methods.GET, methods.POST, methods.PUT, methods.PATCH, methods.DELETE],
                    expose_headers=["etag", "location", "retry-after"],
                )
            }
        http_api = gateway.HttpApi(self, "Http", create_default_stage=False, **cors)
        integration = integrations.HttpLambdaIntegration("Api", self.api.alias)
        authorizer = authorizers.HttpLambdaAuthorizer(
            "Token",
            self.authorizer.alias,
            response_types=[authorizers.HttpLambdaResponseType.SIMPLE],
            identity_source=["$request.header.Authorization"],
            results_cache_ttl=AUTHORIZER_CACHE,
        )
        http_api.add_routes(path=HEALTH, methods=[gateway.HttpMethod.GET], integration=integration)
        # By method: ANY would ask a token of the preflight requests of pages, which cannot send one.
        method = gateway.HttpMethod
        http_api.add_routes(
            path="/api/v1/{proxy+}",
            methods=[method.GET, method.HEAD, method.POST, method.PUT, method.PATCH, method.DELETE],
            integration=integration,
            authorizer=authorizer,
        )
        access_log = make_log_group(self, "AccessLogs", config)
        gateway.HttpStage(
            self,
            "Stage",
            http_api=http_api,
            stage_name="$default",
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(rate_limit=config.api_rate, burst_limit=config.api_burst),
            access_log_settings=_AccessLog(access_log),
        )
        return http_api
