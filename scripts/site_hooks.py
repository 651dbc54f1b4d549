"""Hooks of mkdocs: pages written for GitHub become pages of the site, and the references are made from the code.

- Files of the project outside docs/ that are pages (ROOT_PAGES) join the site; links to other files become their names,
  since a site has no source tree beside it.
- A fenced block's words for our tests (``skip``, ``file=NAME``) become what the site understands.
- The language switch leads to the same page in the other language, or to that language's first page.
- ``<!-- commands -->`` becomes the reference of the command line, ``<!-- names -->`` that of the Python API.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jieba
from mkdocs.structure.files import File, Files

import eyechart
from eyechart.cli import COMMANDS, make_parser

ROOT = Path(__file__).parent.parent
ROOT_PAGES = {
    "CHANGELOG.md": "What changed in each version of Eyechart.",
    "CONTRIBUTING.md": "How Eyechart is built: the map of its code, its words, how to add datasets, models and tasks.",
}
"""Pages outside docs/, with their descriptions for search engines."""
LANGUAGES = {"English": "", "中文": "zh/"}
"""Folders of the pages in each language."""
FENCE = re.compile(r"^```(?P<language>\w+)(?P<words>[^\n`]*)$", re.MULTILINE)
BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside docs/."""
    jieba.setLogLevel(logging.WARNING)  # the search segments Chinese with it; it would log its loading time
    for name, description in ROOT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(
            File.generated(config, name, content=f"---\ndescription: {json.dumps(description)}\n---\n\n{text}")
        )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Convert a page to the site's syntax."""
    name = page.file.src_uri
    place = name if name in ROOT_PAGES else f"docs/{name}"
    prose = BLOCK.split(markdown)  # every second part is a fenced block
    prose[::2] = [LINK.sub(lambda link: _link(link, place, name), part) for part in prose[::2]]
    text = FENCE.sub(_fence, "".join(prose))
    for marker, lines in {"<!-- commands -->": _commands, "<!-- names -->": _names}.items():
        if marker in text:
            text = text.replace(marker, "\n".join(lines()))
    return text


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """Point the language switch at the same page in the other language."""
    addresses = {other.file.src_uri: other.url for other in nav.pages}
    name = page.file.src_uri.removeprefix("zh/")
    config.extra["alternate"] = [
        {
            "name": language,
            "lang": folder.strip("/") or "en",
            "link": addresses.get(folder + name) or addresses[f"{folder}README.md"] or "./",
        }
        for language, folder in LANGUAGES.items()
    ]
    return context


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Declare the language of a Chinese page to browsers and screen readers.

    The theme looks for a site map below every alternate page; the space hides these links from its selector only.
    """
    output = output.replace('<link rel="alternate" ', '<link rel="alternate " ')
    return output.replace('lang="en"', 'lang="zh"', 1) if page.file.src_uri.startswith("zh/") else output


def _link(link: re.Match[str], place: str, name: str) -> str:
    """Turn a link between files of the project into one between pages, or into the file's name."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link["path"]))
    if target.startswith("docs/"):
        target = target.removeprefix("docs/")
    elif target not in ROOT_PAGES:
        shown = link["text"].strip("`")
        return f"`{target}`" if shown in target else f"{link['text']} (`{target}`)"
    return f"[{link['text']}]({os.path.relpath(target, posixpath.dirname(name) or '.')}{link['anchor'] or ''})"


def _fence(fence: re.Match[str]) -> str:
    named = re.search(r"file=(\S+)", fence["words"])
    return f"```{fence['language']}" + (f' title="{named[1]}"' if named else "")


def _names() -> Iterator[str]:
    """Yield the mkdocstrings references of every public name."""
    for name, module in eyechart._PUBLIC.items():
        yield f"::: {module}.{name}\n    options:\n      inherited_members: true\n"


def _commands() -> Iterator[str]:
    for name in COMMANDS:
        yield from _command(_subcommands(make_parser("eyechart", name))[name], 2)


def _command(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """Yield the section of a command: purpose, examples, flags by group, and subcommands."""
    yield f"{'#' * level} {parser.prog}\n"
    yield f"{_plain(parser.description or '')}\n"
    if examples := getattr(parser, "examples", ()):
        yield "```console\n" + "".join(f"$ {parser.prog} {line}\n" for line in examples) + "```\n"
    for group in parser._action_groups:
        rows = [_row(parser, action) for action in group._group_actions if not _left_out(action)]
        if rows:
            title = group.title or ""
            yield f"**{title[:1].upper()}{title[1:]}**\n\n{_plain(group.description or '')}\n"
            yield "| flag | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    for command in _subcommands(parser).values():
        yield from _command(command, level + 1)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return the line of a flag, with the command's help text."""
    formatter = parser._get_formatter()
    flags = formatter._format_action_invocation(action).replace("|", "\\|")
    return f"| `{flags}` | {_plain(formatter._expand_help(action))} |"


def _left_out(action: argparse.Action) -> bool:
    """Whether an action is not listed as a flag: subcommands have sections, and every command has ``--help``."""
    return isinstance(action, argparse._SubParsersAction | argparse._HelpAction) or action.help in (
        None,
        argparse.SUPPRESS,
    )


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def _plain(text: str) -> str:
    """Escape markup characters of a help text."""
    return re.sub(r"([|<>*_`\[\]{}])", r"\\\1", text)
