"""`eyechart completion`: a script that a real shell reads."""

import subprocess

import pytest

from eyechart.cli import COMMANDS, main

CASES = {
    "eyechart ev": ["eval"],
    "eyechart eval --data": ["--dataset", "--dataset-root", "--dataset-hub"],
    "eyechart eval --precision f": ["fp32", "fp16"],
    "eyechart eval cifar1": ["cifar10", "cifar100"],
    "eyechart eval ": [],  # hundreds of names: files are offered until the first letter
    "eyechart eval --dataset ": [],
    "eyechart eval --precision ": ["auto", "fp32", "fp16", "bf16", "amp", "half"],
    "eyechart eval photos ViT-B-32:open": ["openai"],  # bash has the part before the colon on its line
    "eyechart eval --model eyechart-t": ["eyechart-tiny", "eyechart-tiny-int8"],
    "eyechart list data": ["datasets"],
    "eyechart vlm conv": ["convert"],
    "eyechart vlm convert --keep": ["--keep-images"],
    "eyechart vlm convert --keep-images p": ["paths"],
    "eyechart nonsense --x": [],
}
ASK = """
source "$1"
while IFS= read -r COMP_LINE; do COMP_POINT=${#COMP_LINE}; _eyechart; echo "${COMPREPLY[*]}"; done
"""


def script(capsys, shell):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def test_bash_completes_commands_flags_values_and_names(capsys, tmp_path):
    (tmp_path / "script").write_text(script(capsys, "bash"))

    done = subprocess.run(
        ["bash", "-c", ASK, "bash", str(tmp_path / "script")],
        input="\n".join(CASES) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr == ""
    assert dict(zip(CASES, map(str.split, done.stdout.splitlines()), strict=True)) == CASES


def test_bash_calls_the_function_for_eyechart(capsys, tmp_path):
    (tmp_path / "script").write_text(script(capsys, "bash"))

    done = subprocess.run(
        ["bash", "-c", 'source "$1"; complete -p eyechart', "bash", str(tmp_path / "script")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "-F _eyechart eyechart" in done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_command(capsys, shell):
    text = script(capsys, shell)

    for command in COMMANDS:
        assert command in text
    assert "keep-images" in text
