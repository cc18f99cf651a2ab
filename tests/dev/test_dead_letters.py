"""Dead letters in the one-machine mode: queues by the stack's own rule, long polls, real time."""

from datetime import UTC, datetime, timedelta

from clawjob.aws.dead_letters import DeadLetters
from clawjob.aws.table import DEAD_LETTER_RECEIVES, create_queues, create_table
from clawjob.dev.moto_server import MotoServer
from clawjob.domain.messages import RunMessage
from clawjob.domain.priority import QueueClass
from clawjob.domain.times import Times
from clawjob.operations.dead_letters import drop, list_dead_letters, redrive
from support.service import TABLE, make_context

LOW = "runs-default-low"


def test_a_message_taken_ten_times_is_put_aside_shown_sent_back_and_dropped(
    moto_server: MotoServer, make_client
) -> None:
    dynamodb, sqs = (make_client(name, moto_server.url) for name in ("dynamodb", "sqs"))
    create_table(dynamodb, TABLE)
    urls = create_queues(sqs, "clawjob-dev", ["default"], timedelta(seconds=8))
    ctx = make_context(dynamodb, sqs, urls, lambda: datetime.now(UTC), Times())
    dead = DeadLetters.of(ctx.queues)
    assert dead.names == ("runs-default-high", LOW, "results")
    url = urls.run["default"][QueueClass.LOW]

    def take_until_put_aside() -> None:
        for _ in range(DEAD_LETTER_RECEIVES):
            answer = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0, WaitTimeSeconds=5)
            assert len(answer["Messages"]) == 1
        assert "Messages" not in sqs.receive_message(QueueUrl=url)

    sqs.send_message(QueueUrl=url, MessageBody=RunMessage("0123456789ab-m1", 0).to_body())
    take_until_put_aside()
    views = {view.name: view for view in list_dead_letters(ctx, dead, None, 10)}
    (one,) = views[LOW].letters
    assert one.letter.run_id == "0123456789ab-m1"
    assert redrive(ctx, dead, LOW, one.message.message_id).done == 1
    take_until_put_aside()
    assert drop(ctx, dead, LOW, None).done == 1
    assert list_dead_letters(ctx, dead, LOW, 10)[0].letters == ()
