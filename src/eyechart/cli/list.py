"""``eyechart list``: named datasets, models, tasks, collections and languages."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from eyechart.cli.flags.parser import CommandParser
from eyechart.errors import nearest
from eyechart.io.terminal import translate, width_of, write_message, write_output
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.messages import UserMessage

if TYPE_CHECKING:
    from eyechart.datasets.catalogue import Catalogue
    from eyechart.plugins import Registry

    Rows = list[tuple[str, ...]]


EXAMPLES = ("datasets --search flowers", "datasets --kind retrieval --language de", "models --search siglip", "tasks")


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.alone, parser.examples = True, EXAMPLES
    add = parser.add_argument
    known = UserMessage("what to list: {names}", names=", ".join(_LISTS))
    add("what", metavar="WHAT", choices=list(_LISTS), help=known)
    add("--search", help="only names and titles that contain this text, else similar names")
    add("--kind", help="only datasets of this kind: classification, retrieval, MCQ, Y/N, VQA, ...")
    add("--language", help="only datasets in this language, given by any of its codes")
    add("--collection", help="only datasets of this collection")
    add("--needs", help="only datasets with this requirement: nothing, download, manual, tfds, torchvision, ...")
    about = "only generative benchmarks that require a judge, or only those that do not"
    add("--needs-judge", choices=["yes", "no"], help=about)
    add("--catalogue", nargs="+", default=[], help="TOML files that define additional datasets and collections")


def run(args: argparse.Namespace) -> int:
    """Print one line per item."""
    from eyechart.models.resolve import has_open_clip

    head, make_rows = _LISTS[args.what]
    rows = make_rows(args)
    if args.search:
        data = args.what == "datasets"
        also = {entry.name: entry.aliases for entry in catalogue_of(args).entries.values()} if data else {}
        rows = _found(args.search, rows + (_formats() if data else []), also)
    if rows:
        show_columns(rows, head)
    if args.what == "models":
        if not has_open_clip():
            write_message("To list OpenCLIP's models: pip install 'eyechart[open-clip]'\n", sys.stderr)
        write_message("Folders, hub ids and servers are models, too: see `eyechart list families`\n", sys.stderr)
    return 0


def _found(text: str, rows: Rows, also: Mapping[str, Sequence[str]]) -> Rows:
    """Return the rows with a text in their name, its other spellings or title, else with a similar word in the name."""
    found = [
        row
        for row in rows
        if any(mentions(name, text) for name in (row[0], *also.get(row[0], ()))) or text.lower() in row[-1].lower()
    ]
    if found:
        return found
    words = {word for row in rows for word in _words_of(row[0])}
    near = set(nearest(text, words, count=5, cutoff=0.7))
    found = [row for row in rows if near & _words_of(row[0])]
    like = "No name or title contains {text!r}; similar names:\n"
    write_message(like if found else "No name or title contains {text!r}.\n", sys.stderr, text=text)
    return found


def mentions(name: str, text: str) -> bool:
    """Whether a text is part of a name, or begins at one of its words if punctuation is ignored: cvbench, CV-Bench."""
    plain = partial(re.sub, r"[\W_]+", "")
    starts = (name[word.start() :] for word in re.finditer(r"[^\W_]+", name)) if plain(text) else ()
    return text.lower() in name.lower() or any(plain(part.lower()).startswith(plain(text.lower())) for part in starts)


def _words_of(name: str) -> set[str]:
    """Return a name, with and without weights, and its words: vtab/cifar10 has vtab, cifar10 and cifar."""
    parts = re.split(r"[^a-z0-9]+", name.lower())
    return {
        name.lower(),
        name.lower().partition(":")[0],
        *(word for part in parts for word in (part, part.rstrip("0123456789")) if len(word) > 2),
    }


NUMBERS = ("CLASSES", "SAMPLES", "COUNT", "DATASETS")


def show_columns(rows: Sequence[Sequence[str]], head: Sequence[str]) -> None:
    """Print as many columns as fit; the header goes to stderr, so that pipes get only the rows."""
    columns = columns_of(*head, right=NUMBERS, drop=head[1:-1], wraps=True)
    first, *lines = lay_out(columns, rows, width_of(sys.stdout))
    write_output(f"{first[0]}\n", sys.stderr)
    left_out = [name for name in map(translate, head) if name not in first[0].split()]
    write_output("".join(f"{line}\n" for row in lines for line in row), sys.stdout)
    if left_out:
        write_message("No room for {names}: use a wider terminal or a pipe.\n", sys.stderr, names=", ".join(left_out))


def registries() -> dict[str, Registry]:
    """Return the registries by the name of their list."""
    from eyechart.models.registry import ENCODERS, GENERATORS, RERANKERS
    from eyechart.tasks.registry import TASKS

    return {"tasks": TASKS, "families": ENCODERS, "generators": GENERATORS, "rerankers": RERANKERS}


def catalogue_of(args: argparse.Namespace) -> Catalogue:
    """Load the catalogue with the user's files."""
    from eyechart.datasets.catalogue import load_catalogue, user_files

    return load_catalogue(user_files(args.catalogue))


def _datasets(args: argparse.Namespace) -> Rows:
    rows = [] if args.needs_judge else list(_named_datasets(args))
    if not (args.language or args.collection or args.needs):
        from eyechart.datasets.questions.benchmarks import known_benchmarks

        for benchmark in known_benchmarks().values():
            required = benchmark.judge == "required"
            if args.needs_judge is None or required == (args.needs_judge == "yes"):
                rows.append((benchmark.name, benchmark.kind, "", "", "", "download", benchmark.judge, benchmark.about))
    return [row for row in rows if args.kind is None or row[1] == args.kind]


def _formats() -> Rows:
    """List the formats of data that a prefix names, such as aro/NAME, and the collections of MTEB."""
    from eyechart.benchmarks import MTEB_COLLECTIONS
    from eyechart.datasets.registry import READERS
    from eyechart.datasets.resolve import PREFIXES

    blank = ("",) * 4
    rows: Rows = [
        (name, "collection", *blank[1:], "download", "", f"{mteb}, as in the installed mteb")
        for name, mteb in MTEB_COLLECTIONS.items()
    ]
    return rows + [
        (f"{name}/NAME", *blank, "--dataset-root", "", _summary(READERS, key)) for name, key in PREFIXES.items()
    ]


def _named_datasets(args: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    from eyechart.datasets.catalogue import needs_of
    from eyechart.errors import unknown_name
    from eyechart.languages import canonical

    catalogue = catalogue_of(args)
    if args.collection and args.collection not in catalogue.collections:
        raise unknown_name("collection", args.collection, catalogue.collections)
    for entry in catalogue.entries.values():
        needs = needs_of(entry, catalogue)
        if (
            (args.language and not entry.own_language(args.language))
            or (args.collection and args.collection not in catalogue.collections_of(entry.name))
            or (args.needs and not any(args.needs in need for need in needs))
        ):
            continue
        classes = str(entry.classes or ("by language" if entry.classes_by_language else ""))
        codes = sorted(canonical(code) for code in entry.languages)
        languages = ",".join(codes) if len(codes) <= 5 else str(len(codes))
        samples = str(entry.samples or "")
        yield entry.name, entry.kind, classes, samples, languages, needs[0] if needs else "", "", entry.title


def _collections(args: argparse.Namespace) -> Rows:
    from eyechart.benchmarks import MTEB_COLLECTIONS
    from eyechart.models.resolve import EVERYTHING, model_collections

    rows: Rows = [
        (name, "datasets", str(len(members)), " ".join(members))
        for name, members in catalogue_of(args).collections.items()
    ]
    rows += [(name, "datasets", "", f"{mteb}, as in the installed mteb") for name, mteb in MTEB_COLLECTIONS.items()]
    rows += [
        (name, "models", str(len(members)), " ".join(",".join(pair) for pair in members))
        for name, members in model_collections().items()
    ]
    return rows + [(name, "models", "", "all models of the installed open_clip") for name in EVERYTHING]


def _languages(args: argparse.Namespace) -> Rows:
    from eyechart.languages import known

    entries = catalogue_of(args).entries.values()
    counts = {one.code: sum(bool(entry.own_language(one.code)) for entry in entries) for one in known()}
    return [(one.code, ",".join(one.aliases), str(counts[one.code]), one.name) for one in known()]


def _models(args: argparse.Namespace) -> Rows:  # noqa: ARG001 - as all lists
    from eyechart.models.resolve import known_models

    return [(name, family, translate(about)) for name, family, about in known_models()]


def _registered(args: argparse.Namespace) -> Rows:
    from eyechart.types import IN_MEMORY

    registry = registries()[args.what]
    return [(name, _summary(registry, name)) for name in registry.names() if name != IN_MEMORY]


def _summary(registry: Registry, name: str) -> str:
    """Return the first line of an object's docstring, or why it cannot be loaded."""
    from eyechart.errors import EyechartError

    try:
        loaded = registry.load(name)
    except (EyechartError, ImportError) as error:
        return f"cannot be loaded: {error}".splitlines()[0]
    return plain_lines(loaded.__doc__)[0]


def plain_lines(docstring: str | None) -> list[str]:
    """Return the paragraphs of a docstring as lines without markup, translated where they are."""
    paragraphs = (" ".join(part.split()) for part in (docstring or "").split("\n\n"))
    return [translate(line).replace("``", "").replace("`", "") for line in paragraphs]


_LISTS: dict[str, tuple[Sequence[str], Callable[[argparse.Namespace], Rows]]] = {
    "datasets": (("NAME", "KIND", "CLASSES", "SAMPLES", "LANGUAGES", "NEEDS", "JUDGE", "TITLE"), _datasets),
    "models": (("NAME", "FAMILY", "WHAT"), _models),
    **dict.fromkeys(("families", "generators", "rerankers", "tasks"), (("NAME", "WHAT"), _registered)),
    "collections": (("NAME", "OF", "COUNT", "MEMBERS"), _collections),
    "languages": (("CODE", "ALSO", "DATASETS", "LANGUAGE"), _languages),
}
"""Headings and rows of each list."""
