"""Progress output while a run trains."""

import dataclasses
import io
import time
from types import SimpleNamespace

import pytest

from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training import progress as module
from keras_quasiattn.lab.training.progress import Progress, TrainingProgress

SETTINGS = TrainingSettings(
    steps=1250, batch_size=1, learning_rate=1.0, warmup_steps=0, checkpoint_every=500
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def train(clock, stream, start=0, settings=SETTINGS):
    """Return the lines about a training at 50 updates a second, after 9 s of compilation."""
    reports = TrainingProgress(Progress(True, stream), settings, start)
    reports.on_train_begin()
    for epoch in range(start // 500, SETTINGS.checkpoints):
        reports.on_epoch_begin(epoch)
        for batch in range(min(500, SETTINGS.steps - 500 * epoch)):
            reports.on_train_batch_begin(batch)
            clock.seconds += 9 if 500 * epoch + batch == start else 0.02
        reports.on_test_begin()
        reports.on_epoch_end(epoch, {"loss": 0.51234, "val_loss": 2.0})
    reports.on_train_end()
    return stream.getvalue().split("\n")[:-1]


def test_nothing_said_how_long_it_takes(clock):
    first, *_, last = [line for line in train(clock, io.StringIO()) if "loss" in line]
    assert first == ("update 500 of 1,250: loss 0.5123, val_loss 2; 50 updates a second, 15 s left")
    assert last.startswith("update 1,250 of 1,250: loss") and "0 s left" in last


def test_time_left_counted_to_the_maximum_as_if_nothing_could_end_the_run(clock):
    patient = dataclasses.replace(SETTINGS, select="loss", patience=1)
    first, *_ = [line for line in train(clock, io.StringIO(), settings=patient) if "loss" in line]
    assert first.startswith("update 500 of at most 1,250: ")
    assert first.endswith("; 50 updates a second, at most 15 s left")


def test_a_line_now_and_then_between_checkpoints(clock, monkeypatch):
    monkeypatch.setattr(module, "_EVERY", {True: 0.5, False: 4.0})
    lines = train(clock, io.StringIO(), start=500)
    assert [line.partition(";")[0].partition(":")[0] for line in lines] == [
        *("update 501 of 1,250", "update 702 of 1,250", "update 903 of 1,250"),
        *("update 1,000 of 1,250", "update 1,201 of 1,250", "update 1,250 of 1,250"),
    ]
    assert lines[1].endswith("; 50 updates a second, 11 s left")


def test_one_line_changes_in_place_on_a_terminal(clock):
    lines = train(clock, Terminal())
    assert len(lines) == 3
    assert lines[0].count("\r\x1b[Kupdate ") > 10 and lines[0].endswith("15 s left")


def test_a_line_wider_than_the_terminal_was_not_replaced(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    with Progress(True, stream) as progress:
        progress.replace("training " + "a-long-name " * 9)
    assert stream.getvalue() == "\r\x1b[Ktraining a-long-nam\n"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_nothing_is_silent_for_long(stream, monkeypatch):
    monkeypatch.setattr(module, "_SILENCE", 0.15)
    with Progress(True, stream) as progress, progress.busy("all"), progress.busy("measuring"):
        deadline = time.monotonic() + 30
        while stream.getvalue().count("measuring: 0 s so far") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        progress.say("done")
    assert stream.getvalue().endswith("\x1b[Kdone\n" if stream.isatty() else "far\ndone\n")
