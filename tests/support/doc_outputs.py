"""What the examples on the documentation pages print: run in a terminal of 80 columns, compared, written into the page.

Examples run in order in a fresh folder, with a fresh home and an empty cache. A fenced block says by its first line
what it is:

    ```python                  a script that is run
    ```text output             what the script above it prints
    ```console                 lines that start with "$ " are run; below each is what it prints
    ```yaml file=task.yaml     a file that the reader is told to write (any language)
    ```console skip            not run: it needs a network or an hour; the page says so

In an output, a line "..." stands for any number of lines. What differs from run to run is in ``VARYING``; progress and
estimates of the time left are left out. ``python scripts/docs_outputs.py`` writes the outputs,
``tests/docs/test_docs.py`` compares them.
"""

from __future__ import annotations

import difflib
import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from support.doc_pages import CHINESE, FENCE, PROGRAMS, ROOT, options_of

OUR_COMMANDS = {name: str(Path(sys.executable).parent / name) for name in (*PROGRAMS, "python")} | {
    "python3": sys.executable
}
"""As they are installed: a program does not see the working folder by itself, as ``python -m`` would."""
NOT_RUN = {"make", "pip", "git", "cd", "export", "source", "open", "apt-get", "npm"}
"""Set-up steps, and commands that only look."""
STANDS_FOR = {"make demo": "eyechart demo"}
"""Commands of a fresh checkout, and the part of them that is run."""
WIDTH = 80
LONGEST = 30
"""Lines of an output that is written in full the first time."""
ELIDED = "..."
PROGRESS_BAR = re.compile("[━█]|^(loading|importing libraries,|正在加载|正在导入库)")
"""Progress, including what is announced only if it takes longer than a moment."""
TIME_LEFT = re.compile(r",\s+(?:about [\d.]+ \S+(?: \d+ min)? left|约剩 [\d.]+ \S+(?: \d+ min)?)")
VARYING = {
    r"\b[\d,.]+\s+(ms|s|min|h)\b(\s+[\d,.]+\s+(s|min)\b)?": "TIME",
    r"\b[\d,.]+\s*(秒|毫秒|分钟|小时)": "TIME",
    r"\b[\d,.]+/s\b": "RATE",
    r"\b[\d,.]+ (?:B|kB|KB|MB|GB)\b": "SIZE",
    r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?)?": "DATE",
    r"\b127\.0\.0\.1:\d+": "ADDRESS",
}
"""What differs from run to run, as regular expressions, and what is compared instead."""


def page_with_outputs(page: Path, folder: Path, words_only: bool = False) -> str:
    """Return the page's text with what its examples print now.

    An output that still holds stays as it is; with ``words_only``, also if its lines are broken at other places.
    """
    text = page.read_text(encoding="utf-8")
    terminal = Terminal(folder, "zh" if page in CHINESE else "en")
    parts, end, printed, printed_at = [], 0, [], 0
    for block in FENCE.finditer(text):
        language, options = options_of(block["info"])
        adjoins = not text[printed_at : block.start()].strip()
        before, body = text[end : block.start()], block["body"]
        if language == "text" and "output" in options:
            assert adjoins, f"{page}: an output below no script: {body}"
            if not printed:
                parts, end = [*parts, before.rstrip()], block.end()
                continue
            body, printed = _joined(fitted(body.splitlines(), printed, words_only)), []
        elif printed:
            parts.append(f"\n\n```text output\n{_joined(fitted([], printed))}```")
            printed = []
        if "skip" in options:
            pass
        elif "file" in options:
            terminal.write(options["file"], body)
        elif language == "python":
            printed, printed_at = terminal.run([sys.executable, "-c", body]), block.end()
        elif language == "console":
            body = _console(body, terminal, words_only)
        parts.append(f"{before}```{block['info']}\n{body}```")
        end = block.end()
    if printed:
        parts.append(f"\n\n```text output\n{_joined(fitted([], printed))}```")
    return "".join([*parts, text[end:]])


def _console(body: str, terminal: Terminal, words_only: bool) -> str:
    """Return a console block with what its commands print."""
    done = []
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
        command = re.match(r"(?:\$ (?:.*\\\n)*.*\n)?", part)[0]
        words = shlex.split(command[2:].replace("\\\n", " "), comments=True)
        words = shlex.split(STANDS_FOR.get(" ".join(words), "")) or words
        shown = part[len(command) :].splitlines()
        if words and words[0] not in NOT_RUN:
            shown = fitted(shown, terminal.run(words), words_only)
        done += [command, _joined(shown)]
    return "".join(done)


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def same(shown: list[str], printed: list[str], words_only: bool = False) -> bool:
    """Whether a page shows what was printed; with ``words_only``, wherever the lines are broken."""
    patterns = [re.escape(_stable(part, words_only)) for part in _segments(shown)]
    between = r"\s*(?:(?<!\S).*(?!\S))?\s*" if words_only else r"\s*(?:^.*$)?\s*"
    found = re.fullmatch(between.join(patterns), _stable(printed, words_only), re.DOTALL | re.MULTILINE)
    return found is not None


def _segments(shown: list[str]) -> list[list[str]]:
    """Split an output at the lines that stand for others."""
    segments: list[list[str]] = [[]]
    for line in shown:
        if line == ELIDED:
            segments.append([])
        else:
            segments[-1].append(line)
    return segments


def _stable(lines: list[str], words_only: bool) -> str:
    """Return the text without what differs from run to run, and without the number of spaces."""
    text = _joined(lines)
    for pattern, stand_in in VARYING.items():
        text = re.sub(pattern, stand_in, text)
    if words_only:
        return " ".join(text.split())
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def fitted(shown: list[str], printed: list[str], words_only: bool = False) -> list[str]:
    """Return what a page should show: what it shows if that still holds, or as many lines of what was printed."""
    if same(shown, printed, words_only):
        return shown
    if ELIDED not in shown:
        whole = bool(shown) or len(printed) <= LONGEST
        return printed if whole else [*printed[: LONGEST // 2], ELIDED, *printed[-5:]]
    first, *middle, last = _segments(shown)
    lines, place, stop = printed[: len(first)], len(first), len(printed) - len(last)
    for segment in middle:
        starts = range(place, max(stop - len(segment), place) + 1)
        at = max(starts, key=lambda start: _likeness(segment, printed[start : start + len(segment)]))
        lines += [ELIDED, *printed[at : at + len(segment)]]
        place = at + len(segment)
    return [*lines, ELIDED, *printed[max(stop, place) :]]


def _likeness(a: list[str], b: list[str]) -> float:
    return difflib.SequenceMatcher(None, _stable(a, False), _stable(b, False), autojunk=False).ratio()


class Terminal:
    """A terminal in a fresh folder and home, with the package installed and without the checkout."""

    def __init__(self, folder: Path, language: str) -> None:
        self.home, self.work = folder, folder / "work"
        self.work.mkdir()
        ours = ("EYECHART_", "OPENAI_", "HF_", "XDG_", "PYTEST_", "LANG", "LC_")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
            "HOME": str(self.home),
            "LMUData": str(self.home / "LMUData"),
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONWARNINGS": "",
            "LANG": "C.UTF-8",
            "EYECHART_LANG": language,
            "COLUMNS": str(WIDTH),
            "NO_COLOR": "1",
            "TERM": "xterm",
            "MPLCONFIGDIR": str(ROOT / ".pytest_cache" / "matplotlib"),
        }

    def write(self, name: str, text: str) -> None:
        """Write a file that the page tells the reader to write."""
        target = self.work / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def run(self, words: list[str]) -> list[str]:
        """Return the lines that a command leaves on the screen; it must succeed."""
        assigned = list(takewhile(re.compile(r"[A-Za-z_]+=").match, words))
        program, *rest = words[len(assigned) :]
        program = OUR_COMMANDS.get(program.removeprefix(".venv/bin/"), program)
        own, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
        environment = self.env | dict(word.split("=", 1) for word in assigned)
        with subprocess.Popen(
            [program, *rest],
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
        ) as process:
            os.close(screen)
            raw = bytearray()
            try:
                while chunk := _read(own):
                    raw += chunk
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                os.close(own)
        text = _joined(line for line in on_screen(raw.decode()) if not PROGRESS_BAR.search(line))
        assert process.returncode == 0, f"{shlex.join(words)}\n{text}"
        text = (
            TIME_LEFT.sub("", text)
            .replace(f"file://{self.work}", "file:///home/you")
            .replace(f"{self.work}/", "")
            .replace(str(self.home), "~")
            .replace(sys.prefix, ".venv")
        )
        return [f" {line}" if line.startswith("$ ") else line for line in text.splitlines()]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: the other end was closed
        return b""


CONTROL = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[(?P<count>[\d;?]*)(?P<code>[A-Za-z])|[\r\n]|[^\x1b\r\n]+"
)


def on_screen(raw: str) -> list[str]:
    """Return the lines that a terminal shows in the end: progress that was overwritten is gone, as are colours."""
    lines, row, column = [""], 0, 0
    for found in CONTROL.finditer(raw):
        text = found[0]
        if text == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif text == "\r":
            column = 0
        elif found["code"] == "A":
            row = max(row - int(found["count"] or 1), 0)
        elif found["code"] == "K":
            lines[row] = "" if found["count"] == "2" else lines[row][:column]
        elif not text.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
    lines = [line.rstrip() for line in lines]
    first = next((i for i, line in enumerate(lines) if line), len(lines))
    last = next((i for i, line in enumerate(reversed(lines)) if line), 0)
    return lines[first : len(lines) - last]
