"""The canary: new versions of functions come by CodeDeploy, and go back by themselves.

API and results: 5 % of the calls for ten minutes. The scheduler is called once a minute, so a share of it would see
nothing: before it gets the ticks a hook compares its decisions with those of the old version, then it gets them all,
and a second hook waits for its first ticks. When a stack is made there is no old version, and no deployment either.
"""

from collections.abc import Sequence
from typing import Final

from aws_cdk import ArnFormat, CfnResource, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct

from clawjob.aws.deployments import LIVE
from infra.alarms import new_version_spec
from infra.authority import deployment_statements, hook_statements
from infra.config import StageConfig
from infra.control import Component, Control
from infra.monitoring import Monitoring

PERCENT: Final = 5
MINUTES: Final = Duration.minutes(10)
_COMPARE_TIMEOUT: Final = Duration.minutes(15)
_WATCH_TIMEOUT: Final = Duration.minutes(10)
ALARMS: Final = {
    "api": ("function-errors-api", "api-errors"),
    "results": ("function-errors-results", "results-stuck"),
    "scheduler": ("function-errors-scheduler", "no-tick"),
}
"""Of those that watch a stage all the time, the ones that speak of a function."""


class Canary(Construct):
    """One application, and a deployment group for each function."""

    def __init__(
        self, scope: Construct, name: str, config: StageConfig, control: Control, monitoring: Monitoring
    ) -> None:
        super().__init__(scope, name)
        self._control, self._monitoring = control, monitoring
        self._application = codedeploy.LambdaApplication(self, "Application")
        compare = self._hook(
            "compare",
            _COMPARE_TIMEOUT,
            CLAWJOB_FUNCTION=control.scheduler.function.function_name,
            CLAWJOB_ACCEPT_SCHEDULE_CHANGES=str(config.accept_schedule_changes).lower(),
        )
        watch = self._hook("watch", _WATCH_TIMEOUT)
        self._role = self._make_role([compare, watch])
        share = codedeploy.LambdaDeploymentConfig(
            self,
            "Share",
            traffic_routing=codedeploy.TrafficRouting.time_based_canary(interval=MINUTES, percentage=PERCENT),
        )
        self._deploy("api", control.api, share, [self._new_version_alarm("api", control.api)])
        self._deploy("results", control.results, share, [self._new_version_alarm("results", control.results)])
        scheduler = self._deploy("scheduler", control.scheduler, codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE, [])
        scheduler.add_pre_hook(compare)
        scheduler.add_post_hook(watch)
        for hook in (compare, watch):
            _first(control.scheduler.alias, hook)

    def _hook(self, name: str, timeout: Duration, **variables: str) -> lambda_.Function:
        scheduler = self._control.scheduler.function
        function, _ = self._control.make_function(
            Construct(self, name.capitalize()),
            name,
            timeout,
            512,
            CLAWJOB_NEW_VERSION=scheduler.current_version.version,
            **variables,
        )
        for statement in hook_statements(name, scheduler.function_arn):
            function.add_to_role_policy(statement)
        return function

    def _make_role(self, hooks: Sequence[lambda_.Function]) -> iam.Role:
        """Make CodeDeploy's role: the one that AWS has for it may change every alias of the account."""
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
        control = self._control
        functions = (one.function.function_arn for one in (control.api, control.results, control.scheduler))
        alarms = Stack.of(self).format_arn(
            service="cloudwatch", resource="alarm", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
        )
        for statement in deployment_statements(
            dict.fromkeys(functions, LIVE), [one.function_arn for one in hooks], alarms
        ):
            role.add_to_policy(statement)
        return role

    def _new_version_alarm(self, name: str, component: Component) -> cloudwatch.Alarm:
        return self._monitoring.make_alarm(new_version_spec(name, component))

    def _deploy(
        self,
        name: str,
        component: Component,
        config: codedeploy.ILambdaDeploymentConfig,
        own_alarms: Sequence[cloudwatch.Alarm],
    ) -> codedeploy.LambdaDeploymentGroup:
        group = codedeploy.LambdaDeploymentGroup(
            self,
            name.capitalize(),
            application=self._application,
            alias=component.alias,
            deployment_config=config,
            alarms=[*(self._monitoring.alarms[key] for key in ALARMS[name]), *own_alarms],
            auto_rollback=codedeploy.AutoRollbackConfig(
                failed_deployment=True, stopped_deployment=True, deployment_in_alarm=True
            ),
            # Else the group would give it more rights than it needs.
            role=self._role.without_policy_updates(),
        )
        _first(component.alias, group)
        _first(component.alias, self._role.node.find_child("DefaultPolicy"))
        return group


def _first(alias: lambda_.Alias, needed: IConstruct) -> None:
    """Make or change what a deployment needs before the deployment, also on the way back."""
    changed, first = alias.node.default_child, needed.node.default_child
    assert isinstance(changed, CfnResource)
    assert isinstance(first, CfnResource)
    changed.add_resource_dependency(first)
