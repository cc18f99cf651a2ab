"""Monitoring: the dashboard, the alarms and where they go, and the budget."""

from aws_cdk import Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.alarms import AlarmSpec, alarm_specs
from infra.config import StageConfig
from infra.control import Control
from infra.dashboard import make_dashboard
from infra.data import Data
from infra.workers import Workers

RUNBOOK = "docs/runbook.md"


class Monitoring(Construct):
    """What watches a stage."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        config: StageConfig,
        data: Data,
        control: Control,
        workers: Workers | None,
    ) -> None:
        super().__init__(scope, name)
        self._config = config
        self.topic = self._make_topic()
        self.dashboard = make_dashboard(self, config, data, control, workers)
        self.alarms = {spec.key: self.make_alarm(spec) for spec in alarm_specs(config, data, control)}
        if config.budget_usd:
            self._make_budget()

    def _make_topic(self) -> sns.Topic:
        topic = sns.Topic(self, "Alarms", enforce_ssl=True)
        # A policy of our own takes the place of the default one, which lets alarms publish.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
        if self._config.alarm_email:
            topic.add_subscription(subscriptions.EmailSubscription(self._config.alarm_email))
        return topic

    def make_alarm(self, spec: AlarmSpec) -> cloudwatch.Alarm:
        """Make an alarm that reaches the topic."""
        operator, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            "".join(part.capitalize() for part in spec.key.split("-")),
            alarm_name=f"{self._config.stack_name}-{spec.key}",
            alarm_description=f"{spec.what} See {RUNBOOK}#{spec.anchor}",
            metric=spec.metric,
            threshold=spec.threshold,
            evaluation_periods=spec.periods,
            datapoints_to_alarm=spec.datapoints or spec.periods,
            comparison_operator=operator.LESS_THAN_THRESHOLD if spec.below else operator.GREATER_THAN_THRESHOLD,
            treat_missing_data=missing.BREACHING if spec.missing_is_bad else missing.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))
        return alarm

    def _make_budget(self) -> None:
        """Watch the whole account: costs by tag are known only where somebody switched the tag on."""
        mail = budgets.CfnBudget.SubscriberProperty(address=self._config.alarm_email, subscription_type="EMAIL")
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=self._config.budget_usd, unit="USD"),
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        comparison_operator="GREATER_THAN", notification_type="ACTUAL", threshold=percent
                    ),
                    subscribers=[mail],
                )
                for percent in (80, 100)
            ],
        )
