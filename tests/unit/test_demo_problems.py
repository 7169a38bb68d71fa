"""The demo's problems: what is held out is never trained on, and both sides are sums of one kind."""

import re

from rollway.demo.problems import TrainingTasks, held_out_tasks, is_held_out


def questions(tasks):
    return [task.messages[0].content for task in tasks]


def test_training_and_held_out_problems_do_not_overlap():
    held_out = questions(held_out_tasks(1000))
    trained = questions(TrainingTasks().take(10_000))
    assert len(held_out) == 1000
    assert len(trained) == 10_000
    assert not set(held_out) & set(trained)
    assert all(map(is_held_out, held_out))
    assert not any(map(is_held_out, trained))
    assert len(set(held_out)) > 500
    assert len(set(trained)) > 3000


def test_problems_are_the_same_at_every_start():
    assert held_out_tasks(20) == held_out_tasks(20) == held_out_tasks(40)[:20]
    one, other = TrainingTasks(), TrainingTasks()
    assert one.take(5) + one.take(5) == other.take(10)


def test_references_are_the_right_answers():
    for task in held_out_tasks(50) + TrainingTasks().take(50):
        first, sign, second = re.search(r"(\d+) ([+-]) (\d+)", task.messages[0].content).groups()
        total = int(first) + int(second) if sign == "+" else int(first) - int(second)
        assert task.reference["answer"] == str(total)
