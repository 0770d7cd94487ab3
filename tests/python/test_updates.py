"""Updates of federated training: what is taken, what is refused, and that nothing changes where one is."""

import random
import struct
import zlib

import numpy as np
import pytest

import nacre
from nacre import updates


@pytest.fixture(scope="module")
def trainer(digits):
    made = nacre.convert(digits, train="softmax_cross_entropy", optimizer="momentum", lora=2, batch=16)
    return nacre.Trainer(made)


def bytes_of(arrays):
    return {name: array.tobytes() for name, array in arrays.items()}


def test_bytes_hold_what_was_sent(trainer):
    sent = trainer.parameters()
    data = updates.to_bytes(sent, 77)
    taken, samples = updates.from_bytes(data)
    assert samples == 77 and list(taken) == list(sent) and bytes_of(taken) == bytes_of(sent)
    assert len(data) == 24 + sum(4 + len(name) + 4 * a.ndim + a.nbytes for name, a in sent.items())
    with pytest.raises(nacre.Error, match="^w: sent as bytes are"):
        updates.to_bytes({"w": np.zeros(2, np.complex64)}, 1)
    assert updates.from_bytes(updates.to_bytes({"w": np.ones(3, np.float16)}, 1))[0]["w"].dtype == np.float32


def whole(body, count=1):
    """An update of this body whose CRC is right."""
    return struct.pack("<8sIIII", updates.MAGIC, 1, 1, count, zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        struct.pack("<HBB", 1, 1, 8) + b"a" + struct.pack("<8I", 0, *7 * [2**32 - 1]),
        struct.pack("<HBB", 1, 1, 255) + b"a" + bytes(1020),
        struct.pack("<HBB", 0, 1, 0) + bytes(4),
        struct.pack("<HBB", 1, 1, 0) + b"\0" + bytes(4),
        struct.pack("<HBB", 1, 2, 0) + b"a" + bytes(4),
        struct.pack("<HBB", 1, 1, 0) + b"\xff" + bytes(4),
        struct.pack("<HBB", 1, 1, 1) + b"a" + struct.pack("<I", 2**32 - 1),
        b"",
    ],
)
def test_bytes_that_are_no_update_are_one_error(body):
    with pytest.raises(nacre.Error):
        updates.from_bytes(whole(body))


def test_damaged_bytes_are_an_update_or_one_error(trainer):
    data = updates.to_bytes(trainer.parameters(), 7)
    for cut in [*range(64), *range(64, len(data), 97)]:
        with pytest.raises(nacre.Error):
            updates.from_bytes(data[:cut])
    draw = random.Random(1)
    for _ in range(2000):
        body = bytearray(data[24 : 24 + draw.choice((60, 400, len(data)))])
        for _ in range(draw.randint(1, 4)):
            body[draw.randrange(min(60, len(body)))] = draw.choice((0, 1, 4, 8, 127, 255, draw.randrange(256)))
        try:
            made, _ = updates.from_bytes(whole(bytes(body), draw.choice((0, 1, 2, 2**32 - 1))))
            updates.check(made, trainer.parameters())
        except nacre.Error as error:
            assert error.exit_code == 3


@pytest.mark.parametrize("samples", [-1, 2**32, 1.5, "7", None])
def test_a_number_of_samples_that_is_none_is_refused(trainer, samples):
    with pytest.raises(nacre.Error, match="^samples: "):
        updates.to_bytes(trainer.parameters(), samples)


def test_averages_of_codes_become_codes():
    wanted = {"w": np.zeros(4, np.int8)}
    assert list(updates.check({"w": np.array([0.5, 1.5, -300.0, 2.49])}, wanted)["w"]) == [0, 2, -128, 2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_value_that_is_no_number_is_refused_by_name(trainer, images, labels, value):
    before = bytes_of(trainer.state_dict())
    wrong = {name: array.astype(np.float64) for name, array in trainer.parameters().items()}
    wrong["fc.weight/lora_a"][1, 5] = value
    with pytest.raises(nacre.Error, match="^fc.weight/lora_a: ") as caught:
        updates.train_round(trainer, wrong, images[:16], labels[:16], lr=0.1)
    assert caught.value.exit_code == 3 and bytes_of(trainer.state_dict()) == before


def test_names_shapes_and_types_are_those_of_the_model(trainer):
    wanted = trainer.parameters()
    for change, sentence in (
        ({"stranger": np.zeros(2)}, "stranger: no trained parameter"),
        ({"fc.weight/lora_a": np.zeros((2, 127))}, "fc.weight/lora_a: its shape in the update is"),
        ({"fc.weight/lora_a": np.float32(1)}, "fc.weight/lora_a: its shape in the update is"),
        ({"fc.weight/lora_a": np.full((2, 128), "x")}, "fc.weight/lora_a: its type in the update is"),
        ({"fc.weight/lora_a": None}, "fc.weight/lora_a: its type in the update is"),
        ({"fc.weight/lora_a": [[1.0], [1.0, 2.0]]}, "fc.weight/lora_a: its value in the update is no array"),
    ):
        with pytest.raises(nacre.Error, match="^" + sentence):
            updates.check({**wanted, **change}, wanted)
    with pytest.raises(nacre.Error, match="^fc.weight/lora_a: the update lacks"):
        updates.check({k: v for k, v in wanted.items() if k != "fc.weight/lora_a"}, wanted)


def test_a_round_is_steps_from_what_was_sent(trainer, images, labels):
    sent = {name: array + np.float32(0.01) for name, array in trainer.parameters().items()}
    made = updates.train_round(trainer, sent, images[:40], labels[:40], lr=0.01, epochs=2)
    assert made.samples == 40 and made.refused_steps == 0 and made.loss > 0
    other = nacre.Trainer(trainer.model)
    other.load_state_dict(sent, strict=False)
    for _ in range(2):
        for first in (0, 16, 32):
            other.step(images[first : min(first + 16, 40)], labels[first : min(first + 16, 40)], 0.01)
    assert bytes_of(made.update) == bytes_of(other.parameters())
    named = updates.train_round(trainer, sent, {"pixels": images[:40]}, labels[:40], lr=0.01, epochs=2)
    assert bytes_of(named.update) == bytes_of(made.update)
    with pytest.raises(nacre.Error, match="^samples: there are none"):
        updates.train_round(trainer, sent, images[:0], labels[:0], lr=0.01)
