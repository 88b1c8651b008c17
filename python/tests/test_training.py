"""Training by a configuration, and layouts of distributed programs."""

import threading

import numpy as np
import pytest
import relaxc

LINE = """
def main(x: Tensor(("n", 2), "f32"), y: Tensor(("n",), "f32"), w: Tensor((2,), "f32")) -> Tensor((), "f32"):
    n = sym_var(lower_bound=1)
    error = subtract(matmul(x, w), y)
    return mean(multiply(error, error))
"""
CONFIG = """
program = "line.rx"
steps = {steps}
[weights]
w = "zeros"
[optimizer]
name = "sgd"
rate = 0.5
[data]
files = "points.npz"
batch = "n"
batch_size = 8
[checkpoint]
folder = "out"
every = 4
"""
SHARDS = """
module_attr("mesh[0]", "2")

def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[1]"), w: DTensor((4, 6), "f32", "mesh[0]", "S[0]")):
    return matmul(x, w)
"""


@pytest.fixture
def config(tmp_path):
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (16, 2)).astype("float32")
    np.savez(tmp_path / "points.npz", x=x, y=x @ np.array([2, -1], "float32"))
    (tmp_path / "line.rx").write_text(LINE)
    file = tmp_path / "line.toml"
    file.write_text(CONFIG.format(steps=12))
    return file


def test_steps_reduce_the_loss(config):
    steps = []
    trained = relaxc.train(config, on_step=steps.append)
    assert [step.step for step in steps] == list(range(1, 13))
    assert steps[0].dims == {"n": 8} and steps[0].rate == 0.5
    assert (trained.first_loss, trained.last_loss) == (steps[0].loss, steps[-1].loss)
    assert trained.steps == 12 and trained.last_loss < trained.first_loss / 4
    with pytest.raises(relaxc.ArgumentError, match="resume|checkpoint"):
        relaxc.train(config)


def test_a_run_that_is_left_goes_on_where_it_was(config):
    whole, seen = [], []
    relaxc.train(config, on_step=lambda step: whole.append(step.loss))
    for file in (config.parent / "out").iterdir():
        file.unlink()

    def leave(step):
        seen.append(step.loss)
        if step.step == 6:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        relaxc.train(config, on_step=leave)
    resumed = relaxc.train(config, resume=True, on_step=lambda step: seen.append(step.loss))
    assert resumed.steps == 12 and seen == whole
    assert relaxc.train(config, resume=True).first_loss is None


def test_mistakes_have_their_place(config):
    config.write_text(config.read_text().replace('"sgd"', '"newton"'))
    with pytest.raises(relaxc.ProgramError, match="newton") as raised:
        relaxc.train(config)
    assert raised.value.place.line == config.read_text().split("\n").index('name = "newton"') + 1
    with pytest.raises(relaxc.FileError, match="missing.toml"):
        relaxc.train(config.parent / "missing.toml")


def test_training_releases_the_gil(config):
    """Another thread counts while steps are taken."""
    done, counts = threading.Event(), []

    def count():
        while not done.is_set():
            counts.append(None)
            done.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        relaxc.train(config)
    finally:
        done.set()
        thread.join()
    assert len(counts) > 1


def test_layouts_say_what_is_sent():
    plan = relaxc.shard(SHARDS)
    assert 'annotate_sharding(lv0, "mesh[0]", "P(sum)")' in plan.text and plan.all_compared
    assert "spmd.all_reduce" in plan.local
    # Each of two ranks sends its n * 6 partial sums of 4 bytes.
    assert plan.sent == "n * 48" and plan.sent in plan._repr_html_()
    assert relaxc.check(plan.text) and relaxc.check(plan.local)
    assert relaxc.shard(SHARDS, sizes={"n": 64}).samples == {"n": 64}


def test_what_cannot_be_sharded():
    with pytest.raises(relaxc.ArgumentError, match="expected a dim of `main`"):
        relaxc.shard(SHARDS, sizes={"m": 4})
    with pytest.raises(relaxc.ArgumentError, match="no function `other`"):
        relaxc.shard(SHARDS, entry="other")
    with pytest.raises(relaxc.ProgramError, match="mesh"):
        relaxc.shard(SHARDS.replace('module_attr("mesh[0]", "2")', ""))
