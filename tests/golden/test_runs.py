"""One small real result per task, planned jobs and flags are those that are stored."""

import re

import pytest

from support.golden_runs import (
    FLAGS,
    PLANS,
    RUNS,
    commands,
    flags_of,
    plan_facts,
    planned_commands,
    read_json,
    run_facts,
    run_names,
    write_plan_data,
)


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    write_plan_data(folder)
    return folder


@pytest.mark.parametrize("name", run_names())
@pytest.mark.filterwarnings("ignore")
def test_results_are_unchanged(name, tmp_path):
    if name == "mteb":
        pytest.importorskip("mteb")

    found, stored = run_facts(name, tmp_path / re.sub(r"\W+", "_", name)), read_json(RUNS)[name]

    assert found.keys() == stored.keys()
    for file, facts in found.items():
        for key, value in facts.items():
            assert value == stored[file][key], f"{file}: {key}"


def test_there_is_a_run_of_every_task():
    from eyechart.tasks.registry import TASKS

    files = [paths for run in read_json(RUNS).values() for paths in run.values()]

    assert {facts["task"] for facts in files} == set(TASKS.names())


@pytest.mark.parametrize("command", planned_commands())
def test_plans_are_unchanged(command, plan_folder):
    assert plan_facts(command, plan_folder) == read_json(PLANS)[command]


@pytest.mark.parametrize("command", commands())
def test_flags_are_unchanged(command):
    stored = read_json(FLAGS)

    for name, flags in flags_of(command).items():
        for flag, facts in flags.items():
            assert facts == stored[name].get(flag), f"{name} {flag}"
        assert sorted(flags) == sorted(stored[name])
