"""Who comes through the deployed API: nobody without a token, and each as far as the token's role goes."""

import shlex

import pytest

from support.deployed import STACK, UNKNOWN_TOKEN, Stack

JOB = {"name": "refused", "command": "true"}


def test_the_deploy_ends_with_a_command_that_makes_the_first_token_and_logs_in(
    deployed: Stack, deploy_said: str
) -> None:
    assert "clawjob-emulator to account 000000000000 in eu-west-1" in deploy_said
    command = deploy_said.strip().splitlines()[-1].strip()
    assert deployed.outputs["ApiUrl"] in command
    command = command.replace(deployed.outputs["ApiUrl"], shlex.quote(deployed.path_url))
    assert "role admin" in deployed.run("/bin/sh", "-c", command, **deployed.user())
    assert "role admin" in deployed.run("/bin/sh", "-c", "clawjob whoami", **deployed.user())


def test_health_is_open_to_all(deployed: Stack) -> None:
    answer = deployed.ask("GET", "/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


@pytest.mark.parametrize(("token", "status"), [("", 401), (UNKNOWN_TOKEN, 403), ("nonsense", 403)])
@pytest.mark.parametrize("path", ["/jobs", "/whoami", "/no-such-thing"])
def test_nobody_comes_further_without_a_token_that_is_known(
    token: str, status: int, path: str, deployed: Stack
) -> None:
    assert deployed.ask("GET", path, token).status_code == status


def test_the_first_token_is_made_by_aws_credentials_and_the_deployed_authorizer_takes_it(
    deployed: Stack, admin: str
) -> None:
    answer = deployed.ask("GET", "/whoami", admin)
    assert answer.status_code == 200
    assert answer.json()["role"] == "admin"
    assert admin not in deployed.clawjob("token", "list", "--stack", STACK)


def test_a_viewer_looks_and_changes_nothing(deployed: Stack, admin: str) -> None:
    viewer = deployed.clawjob("token", "create", "looks", "--role", "viewer", token=admin).strip()
    assert deployed.ask("GET", "/jobs", viewer).status_code == 200
    answer = deployed.ask("POST", "/jobs", viewer, JOB)
    assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json")
    assert "viewer" in deployed.clawjob("job", "create", "-f", "-", token=viewer, stdin='{"name": "a"}', ok=False)
    assert deployed.ask("GET", "/jobs/refused", admin).status_code == 404


def test_a_revoked_token_that_the_gateway_has_not_seen_is_refused_at_once(deployed: Stack, admin: str) -> None:
    revoked = deployed.clawjob("token", "create", "leaves", "--role", "viewer", token=admin).strip()
    token_id = revoked.split("_")[1]
    deployed.clawjob("token", "revoke", token_id, token=admin)
    # The gateway has not seen this token, so it has no answer of before the revocation.
    assert deployed.ask("GET", "/jobs", revoked).status_code == 403
