"""The program itself: what it loads, how it fails, where it finds the service, what a terminal gets."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clawjob.cli.address import find_address
from clawjob.cli.failures import Failure
from clawjob.cli.main import cli
from clawjob.domain.messages import RunMessage
from clawjob.operations.claim_run import claim_run
from support.api import TOKEN, job

PROGRAM = [sys.executable, "-c", "from clawjob.cli.main import main; main()"]
HEAVY = ("boto3", "botocore", "moto", "pydantic", "httpx", "rich", "flask", "scrapy", "aws_lambda_powertools")
LOADED = "import sys; print(*sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)"


def modules_after(*arguments: str) -> set[str]:
    code = f"""
import sys
sys.argv = ["clawjob", *{arguments!r}]
from clawjob.cli.main import main
try:
    main()
except SystemExit:
    pass
{LOADED}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_the_help_loads_nothing_that_takes_time() -> None:
    for arguments in (("--help",), ("job", "--help"), ("run", "--help"), ("job", "create", "--help"), ("worker", "-h")):
        assert not modules_after(*arguments).intersection(HEAVY), arguments


def test_next_needs_no_aws_no_http_and_no_pydantic() -> None:
    loaded = modules_after("next", "0 2 * * *", "--output", "json")
    assert not loaded.intersection(HEAVY)


def test_the_help_names_every_command(run: Any) -> None:
    text = run("--help").stdout
    for name in ("job", "run", "why", "next", "dev", "demo", "worker"):
        assert f"\n  {name} " in text
    for name in ("create", "apply", "list", "show", "delete", "pause", "resume", "trigger"):
        assert f"\n  {name} " in run("job", "-h").stdout
    for name in ("list", "show", "logs", "wait", "cancel"):
        assert f"\n  {name} " in run("run", "-h").stdout


def test_the_short_helps_in_the_list_are_those_of_the_commands() -> None:
    context = cli.make_context("clawjob", ["job"], resilient_parsing=True)
    for name, lazy in cli._lazy.items():  # type: ignore[attr-defined]
        if name in {"dev", "demo"}:
            continue
        command = cli.get_command(context, name)
        assert command is not None
        assert lazy.help.rstrip(".") in command.get_short_help_str(200).rstrip(".").replace("JOB", "job") or name in {
            "next",
            "why",
            "worker",
        }


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [(("jbo", "list"), "'job'"), (("job", "crate"), "'create'"), (("run", "log"), "'logs'"), (("xyz",), "Known are")],
)
def test_a_mistyped_command_is_told_what_was_meant(run: Any, arguments: tuple[str, ...], hint: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_the_version_is_shown(run: Any) -> None:
    assert run("--version").stdout.startswith("clawjob 0.")


def test_without_a_service_it_says_how_to_get_one(run: Any) -> None:
    result = run("job", "list", env={"CLAWJOB_URL": "", "CLAWJOB_TOKEN": ""})
    assert result.exit_code == 5
    assert "clawjob dev" in result.stderr


def test_nobody_at_the_address_is_5_and_a_wrong_token_is_4(run: Any) -> None:
    nobody = run("job", "list", env={"CLAWJOB_URL": "http://127.0.0.1:9"})
    assert nobody.exit_code == 5
    assert "127.0.0.1:9" in nobody.stderr
    assert "CLAWJOB_URL" in nobody.stderr
    wrong = run("job", "list", env={"CLAWJOB_TOKEN": "cj_x"})
    assert wrong.exit_code == 4
    assert "CLAWJOB_TOKEN" in wrong.stderr
    assert run("job", "list", env={"CLAWJOB_TOKEN": ""}).exit_code == 2
    assert run("job", "list", env={"CLAWJOB_URL": "ftp://x"}).exit_code == 2


def test_the_address_file_of_this_folder_or_one_above_is_found(run: Any, url: str, tmp_path: Path) -> None:
    (tmp_path / ".clawjob").mkdir()
    (tmp_path / ".clawjob/dev.json").write_text(json.dumps({"url": url, "token": TOKEN}))
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    os.chdir(below)
    assert run("job", "list", env={"CLAWJOB_URL": "", "CLAWJOB_TOKEN": ""}).exit_code == 0


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"url": "x"}', '{"url": 1, "token": "x"}', '{"url": "x", "token": "y"}']
)
def test_a_damaged_address_file_is_told_by_its_name(tmp_path: Path, content: str) -> None:
    (tmp_path / ".clawjob").mkdir()
    path = tmp_path / ".clawjob/dev.json"
    path.write_text(content)
    with pytest.raises(Failure) as caught:
        find_address({}, tmp_path)
    assert str(path) in str(caught.value)


def test_the_base_path_may_be_given_or_left_out() -> None:
    for url in ("https://host", "https://host/", "https://host/api/v1", "https://host/api/v1/"):
        found = find_address({"CLAWJOB_URL": url, "CLAWJOB_TOKEN": "cj"}, Path("/"))
        assert found.url == "https://host/api/v1"


def test_a_server_that_is_no_clawjob_is_told() -> None:
    import http.server
    import threading

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = {**os.environ, "CLAWJOB_URL": f"http://127.0.0.1:{server.server_port}", "CLAWJOB_TOKEN": "cj"}
        done = subprocess.run([*PROGRAM, "job", "list"], env=env, capture_output=True, text=True, check=False)
        server.shutdown()
    assert done.returncode == 5
    assert "not clawjob's API" in done.stderr


def test_a_worker_with_wrong_settings_names_each_variable() -> None:
    env = {**os.environ, "CLAWJOB_SLOTS": "0", "CLAWJOB_RUN_QUEUES": "[]"}
    done = subprocess.run([*PROGRAM, "worker"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    for name in ("CLAWJOB_TABLE", "CLAWJOB_RUN_QUEUES", "CLAWJOB_RESULTS_QUEUE", "CLAWJOB_SLOTS"):
        assert f"  {name}: " in done.stderr


def in_terminal(arguments: list[str], **environment: str) -> str:
    """What a program writes to a terminal."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=side,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
    )
    os.close(side)
    written = b""
    while True:
        ready, _, _ = select.select([main], [], [], 30)
        assert ready, "the program hangs"
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(main)
    assert process.wait(30) == 0
    return written.decode()


def test_colours_are_for_terminals_and_never_with_no_color(run: Any, url: str) -> None:
    run("job", "create", "-f", "-", stdin=json.dumps(job(description="x\x1b[2Jy")))
    run("job", "pause", "news")
    where = {"CLAWJOB_URL": url, "CLAWJOB_TOKEN": TOKEN}
    coloured = in_terminal(["job", "list"], **where)
    assert "\x1b[33mpaused" in coloured
    assert "\x1b[2J" not in coloured
    plain = in_terminal(["job", "list"], NO_COLOR="1", **where)
    assert "paused" in plain
    assert "\x1b[3" not in plain
    assert "\x1b" not in run("job", "list").stdout


def test_output_of_a_run_is_harmless_on_a_terminal_and_exact_in_a_file(
    run: Any, url: str, service: Any, logs: Any
) -> None:
    """T-11."""
    run("job", "create", "-f", "-", stdin=json.dumps(job()))
    run_id = json.loads(run("job", "trigger", "news", "--output", "json").stdout)["run_id"]
    text = "\x1b]0;title\x07 \x9b2J \u202eevil"
    at = int(service.context.clock().timestamp() * 1000)
    (message,) = service.receive()
    claim_run(service.context, RunMessage.from_body(message.body), message.message_id, "worker-1")
    logs.put_events(f"{run_id}/1", [(at, text)])
    where = {"CLAWJOB_URL": url, "CLAWJOB_TOKEN": TOKEN}
    shown = in_terminal(["run", "logs", run_id], **where)
    assert shown == "\\x1b]0;title\\x07 \\x9b2J \\u202eevil\r\n"
    done = subprocess.run(
        [*PROGRAM, "run", "logs", run_id], env={**os.environ, **where}, capture_output=True, check=True
    )
    assert done.stdout.decode() == text + "\n"


def test_a_reader_that_goes_away_is_no_error(run: Any, url: str) -> None:
    run("job", "create", "-f", "-", stdin=json.dumps(job(description="x" * 1900)))
    env = {**os.environ, "CLAWJOB_URL": url, "CLAWJOB_TOKEN": TOKEN}
    process = subprocess.Popen(
        [*PROGRAM, "job", "list", "--output", "json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 0
