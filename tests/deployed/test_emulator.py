"""A fault of the emulator is shown as what it is."""

import sys
from pathlib import Path

import pytest

from support.emulator import Emulator, EmulatorError, failed_calls

REQUESTS = """\
[2026-12-07 11:47:23 +0000] [23529] [INFO] 200 127.0.0.1:49055 AmazonSQS.SendMessageBatch POST / 1.1
[2026-12-07 11:47:24 +0000] [23529] [INFO] 500 127.0.0.1:49055 DynamoDB_20120810.GetItem POST / 1.1
[2026-12-07 11:47:25 +0000] [23529] [INFO] 503 0a1b2c3d.execute-api.localhost:49055 - GET /api/v1/jobs 1.1
[2026-12-07 11:47:26 +0000] [23529] [INFO] 503 127.0.0.1:49055 - GET /_aws/execute-api/0a1b2c3d/$default/api/v1/jobs 1.1
[2026-12-07 11:47:27 +0000] [23529] [INFO] 403 127.0.0.1:49055 AmazonSQS.SendMessageBatch POST / 1.1
"""


def test_an_emulator_that_ends_is_said_to_have_ended_with_its_last_words(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path, [sys.executable, "-c", "print('no port is free'); raise SystemExit(3)"])
    with pytest.raises(EmulatorError) as raised:
        emulator.wait()
    emulator.close()
    assert "It is the emulator: ministack ended with exit code 3." in str(raised.value)
    assert "no port is free" in str(raised.value)


def test_an_error_of_the_emulator_itself_is_told_from_one_of_the_deployed_api() -> None:
    (failed,) = failed_calls(REQUESTS)
    assert "500 127.0.0.1:49055 DynamoDB_20120810.GetItem" in failed


def test_a_live_emulator_without_errors_is_not_blamed(emulator: Emulator) -> None:
    assert "ministack lives, and answered no call with an error of its own" in emulator.account()


def test_an_emulator_that_answered_with_an_error_is_named(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path, [sys.executable, "-c", "input()"])
    emulator.requests.write_text(REQUESTS)
    assert "DynamoDB_20120810.GetItem" in emulator.account()
    emulator.close()
    assert "It is the emulator: ministack ended with exit code -9." in emulator.account()
