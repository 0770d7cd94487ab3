"""nacre.flower without Flower's engine: a client's and a strategy's messages in this process."""

import numpy as np
import pytest

import nacre

pytest.importorskip("flwr")
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.serverapp.strategy import FedAvg, FedMedian  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from nacre import flower, updates  # noqa: E402


@pytest.fixture(autouse=True)
def identity():
    """Flower's messages carry who sends them."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 3


@pytest.fixture(scope="module")
def trainer(digits):
    made = nacre.convert(digits, train="softmax_cross_entropy", optimizer="momentum", lora=2, batch=16)
    return nacre.Trainer(made)


def context():
    return Context(run_id=1, node_id=2, node_config={"partition-id": 0}, state=RecordDict(), run_config={})


def asked(arrays, kind="train", **config):
    return Message(RecordDict({"arrays": arrays, "config": ConfigRecord(config)}), dst_node_id=2, message_type=kind)


def reply(trainer, change=None, weight=10):
    record = flower.arrays(trainer)
    if change is not None:
        change(record)
    return Message(
        RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": weight, "loss": 1.0})}),
        dst_node_id=1,
        message_type="train",
    )


def test_a_client_sends_the_trained_parameters_of_its_round(trainer, images, labels):
    app = flower.client(trainer, (images[:40], labels[:40]), lr=0.5, epochs=1)
    initial = flower.arrays(trainer)
    answer = app(asked(initial, **{"lr": 0.001, "local-epochs": 2}), context())
    sent = {name: array.numpy() for name, array in answer.content["arrays"].items()}
    same = updates.train_round(trainer, None, images[:40], labels[:40], lr=0.001, epochs=2)
    assert {k: v.tobytes() for k, v in sent.items()} == {k: v.tobytes() for k, v in same.update.items()}
    assert list(sent) == list(trainer.parameters())
    metrics = answer.content["metrics"]
    assert metrics["num-examples"] == 40 and metrics["refused-steps"] == 0 and metrics["loss"] == same.loss


def test_a_client_refuses_what_is_not_whole_and_is_unchanged(trainer, images, labels):
    app = flower.client(trainer, (images[:16], labels[:16]))
    record = flower.arrays(trainer)
    record["fc.weight/lora_a"] = Array(np.full((2, 128), np.nan, np.float32))
    before = {name: array.tobytes() for name, array in trainer.state_dict().items()}
    with pytest.raises(nacre.Error, match="^fc.weight/lora_a: "):
        app(asked(record), context())
    record["fc.weight/lora_a"] = Array("float32", (2, 128), "numpy.ndarray", b"no array")
    with pytest.raises(nacre.Error, match="^fc.weight/lora_a: its bytes"):
        app(asked(record), context())
    assert before == {name: array.tobytes() for name, array in trainer.state_dict().items()}


def test_a_client_of_a_function_and_its_evaluation(trainer, images, labels):
    seen = []

    def device(where):
        seen.append(where.node_config["partition-id"])
        return trainer, images[:20], labels[:20]

    def top1(mine, x, y):
        return {"accuracy": (mine.infer(x).argmax(-1) == y).mean()}

    app = flower.client(device, evaluate=top1)
    trainer.start()
    answer = app(asked(flower.arrays(trainer), "evaluate"), context())
    assert seen == [0]
    assert answer.content["metrics"]["num-examples"] == 20 and answer.content["metrics"]["accuracy"] > 0.9
    with pytest.raises(TypeError):
        flower.client(trainer)
    with pytest.raises(TypeError):
        flower.client(device, (images, labels))


@pytest.mark.parametrize("strategy", [FedAvg, FedMedian])
def test_a_strategy_sees_whole_updates_alone(trainer, strategy):
    def nan(record):
        record["fc.weight/lora_b"] = Array(np.full((10, 2), np.nan, np.float32))

    def shape(record):
        record["fc.weight/lora_b"] = Array(np.zeros((10, 3), np.float32))

    def stranger(record):
        record["stranger"] = Array(np.zeros(3, np.float32))

    def missing(record):
        del record["fc.weight/lora_b"]

    trainer.start()
    checked = flower.Checked(strategy(), trainer, most_samples=100)
    wrong = [reply(trainer, change) for change in (nan, shape, stranger, missing)]
    wrong += [reply(trainer, weight=weight) for weight in (float("nan"), float("inf"), -1, 0, 101)]
    failed = Message(Error(code=0, reason="away"), reply_to=reply(trainer))
    arrays, metrics = checked.aggregate_train(1, [reply(trainer), *wrong, failed, reply(trainer, weight=5)])
    assert len(checked.refused) == len(wrong) and {each.round for each in checked.refused} == {1}
    assert [each.sentence.split(":")[0] for each in checked.refused] == [
        "fc.weight/lora_b",
        "fc.weight/lora_b",
        "stranger",
        "fc.weight/lora_b",
        *["num-examples"] * 5,
    ]
    for name, mine in trainer.parameters().items():
        np.testing.assert_allclose(arrays[name].numpy(), mine, rtol=1e-6, atol=1e-7)
        assert arrays[name].numpy().dtype == mine.dtype
    assert metrics["loss"] == pytest.approx(1)
    assert checked.aggregate_train(2, wrong) == (None, None)


def with_metrics(trainer, metrics, records=("arrays", "metrics")):
    """A reply with these metrics beside those of nacre.flower.client; None takes one away."""
    made = {"num-examples": 10, "loss": 1.0, "refused-steps": 0} | metrics
    content = {records[0]: flower.arrays(trainer)} if records[0] else {}
    content[records[1]] = MetricRecord({name: value for name, value in made.items() if value is not None})
    return Message(RecordDict(content), dst_node_id=1, message_type="train")


WRONG_METRICS = {
    "x": {"x": 1.0},
    "loss": {"loss": None},
    "loss ": {"loss": [1.0, 2.0]},
    "loss  ": {"loss": []},
    "loss   ": {"loss": float("nan")},
    "loss    ": {"loss": float("-inf")},
    "loss     ": {"loss": 10**400},
    "refused-steps": {"refused-steps": [0]},
    "num-examples": {"num-examples": None},
    "num-examples ": {"num-examples": [10]},
    "num-examples  ": {"num-examples": -10},
    "num-examples   ": {"num-examples": float("nan")},
    "num-examples    ": {"num-examples": 1e308},
    "num-examples     ": {"num-examples": 10**5000},
}


@pytest.mark.parametrize("name", WRONG_METRICS)
def test_metrics_of_one_device_do_not_end_the_round(trainer, name):
    checked = flower.Checked(FedAvg(), trainer)
    others = [with_metrics(trainer, {}) for _ in range(2)]
    evil = with_metrics(trainer, WRONG_METRICS[name])
    arrays, metrics = checked.aggregate_train(1, [others[0], evil, others[1]])
    assert arrays is not None and metrics["loss"] == 1
    assert [each.sentence.split(":")[0] for each in checked.refused] == [name.strip()]
    assert checked.aggregate_evaluate(1, [evil, *others])["loss"] == 1
    assert [each.sentence.split(":")[0] for each in checked.refused] == 2 * [name.strip()]


def test_records_of_other_names_do_not_end_the_round(trainer):
    checked = flower.Checked(FedAvg(), trainer)
    others = [with_metrics(trainer, {}) for _ in range(2)]
    for records in (("weights", "metrics"), ("arrays", "numbers"), (None, "metrics")):
        assert checked.aggregate_train(1, [with_metrics(trainer, {}, records), *others])[0] is not None
    two = with_metrics(trainer, {})
    two.content["more"] = MetricRecord({"loss": 1.0})
    assert checked.aggregate_train(2, [two, *others])[0] is not None
    assert [each.sentence.split(":")[0] for each in checked.refused] == ["arrays", "metrics", "update", "metrics"]


def test_of_two_forms_the_one_of_the_client_is_taken(trainer):
    for order in (0, 1):
        checked = flower.Checked(FedAvg(), trainer)
        replies = [with_metrics(trainer, {}), with_metrics(trainer, {"a": 1.0})]
        _, metrics = checked.aggregate_train(1, replies[::-1] if order else replies)
        assert set(metrics) == {"loss", "refused-steps"}
        assert [each.sentence.split(":")[0] for each in checked.refused] == ["a"]


def test_an_aggregate_that_is_not_whole_is_not_taken(trainer):
    class Bad(FedAvg):
        def aggregate_train(self, server_round, replies):
            return ArrayRecord({"fc.weight/lora_b": Array(np.zeros(1))}), None

    checked = flower.Checked(Bad(), trainer)
    assert checked.aggregate_train(3, [reply(trainer)]) == (None, None)
    assert checked.refused[0].sentence.startswith("the aggregate: ")


def test_an_average_does_not_depend_on_who_answers_first(trainer):
    def moved(by):
        def change(record):
            for name in list(record):
                record[name] = Array(record[name].numpy() * np.float32(1 + 0.37 * by) + np.float32(0.1 * by))

        return change

    replies = [reply(trainer, moved(by), weight=3 + by) for by in range(7)]
    orders = (replies, replies[::-1], replies[3:] + replies[:3])
    made = [flower.Checked(FedAvg(), trainer).aggregate_train(1, order)[0] for order in orders]
    assert len({b"".join(array.data for array in each.values()) for each in made}) == 1
