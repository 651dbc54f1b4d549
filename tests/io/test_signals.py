"""SIGINT and SIGTERM wait for a write and unwind a run, so that nothing computed is lost."""

import signal
import threading

import pytest

from eyechart.io.signals import TERMINATED, Termination, held_signals, terminable

BOTH = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Termination)]


@pytest.fixture(autouse=True)
def unchanged_handlers(python_signals):
    before = [signal.getsignal(number) for number, _ in BOTH]
    yield
    assert [signal.getsignal(number) for number, _ in BOTH] == before


def write(steps, *numbers):
    """Write something in three steps; each signal arrives after one of them."""
    with terminable(), held_signals():
        for i in range(3):
            with held_signals():
                steps.append(i)
            if i < len(numbers):
                signal.raise_signal(numbers[i])


@pytest.mark.parametrize(("number", "raised"), BOTH)
def test_a_signal_during_a_write_is_delivered_after_it(number, raised):
    steps = []

    with pytest.raises(raised):
        write(steps, number)

    assert steps == [0, 1, 2]


def test_a_second_interrupt_aborts_the_write_at_once():
    steps = []

    with pytest.raises(KeyboardInterrupt):
        write(steps, signal.SIGINT, signal.SIGINT)

    assert steps == [0, 1]


def test_a_second_termination_does_not_abort_the_write():
    steps = []

    with pytest.raises(Termination):
        write(steps, signal.SIGTERM, signal.SIGTERM, signal.SIGINT)

    assert steps == [0, 1, 2]


def test_an_interrupt_is_delivered_although_the_write_failed():
    def fail():
        with held_signals():
            signal.raise_signal(signal.SIGINT)
            raise OSError("disk full")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()

    assert isinstance(caught.value.__context__, OSError)


def test_an_ignored_signal_stays_ignored():
    steps = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        write(steps, signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)

    assert steps == [0, 1, 2]


def test_termination_unwinds_the_block_once():
    steps = []

    def run():
        with terminable():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                signal.raise_signal(signal.SIGTERM)  # ignored from now on
                steps.append("stored")

    with pytest.raises(Termination) as caught:
        run()

    assert steps == ["stored"]
    assert caught.value.code == TERMINATED == 143


def test_a_handler_of_the_caller_is_left_alone():
    calls = []
    before = signal.signal(signal.SIGTERM, lambda number, _: calls.append(number))
    try:
        with terminable():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert calls == [signal.SIGTERM]


def test_other_threads_just_run():
    steps = []

    def work():
        with terminable(), held_signals():
            steps.append("written")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert steps == ["written"]
