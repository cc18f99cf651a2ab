from collections import Counter

from clawjob.domain.priority import DEFAULT_PRIORITY, QueueClass, order_of, queue_class_of


def test_priorities_4_and_5_wait_in_the_high_queue_and_all_others_in_the_low_one() -> None:
    classes = {priority: queue_class_of(priority).value for priority in range(1, 6)}
    assert classes == {1: "low", 2: "low", 3: "low", 4: "high", 5: "high"}
    assert queue_class_of(DEFAULT_PRIORITY) is QueueClass.LOW


def test_of_ten_turns_in_a_row_seven_begin_with_the_high_queue_wherever_one_starts() -> None:
    for start in range(10):
        firsts = Counter(order_of(turn)[0] for turn in range(start, start + 10))
        assert firsts == {QueueClass.HIGH: 7, QueueClass.LOW: 3}


def test_every_turn_asks_both_queues() -> None:
    assert all(set(order_of(turn)) == set(QueueClass) for turn in range(10))


def test_neither_queue_waits_more_than_three_turns_to_be_first() -> None:
    firsts = [order_of(turn)[0] for turn in range(20)]
    assert all(set(firsts[start : start + 4]) == set(QueueClass) for start in range(17))
