"""``eyechart cache``: list, verify, compact and clear the cache."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eyechart.errors import UsageError, unknown_name
from eyechart.io.terminal import width_of, write_message, write_output
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.messages import UserMessage

if TYPE_CHECKING:
    from eyechart.store.maintenance import CacheItem

INDEX = ("cards", "digests")
"""Small index files; ``clear`` keeps them unless they are named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    about = "list the cache, clear it, verify cached vectors and answers, or merge small vector files"
    add("action", choices=list(ACTIONS), help=about)
    about = "only these kinds: embeddings, responses, datasets, ... as `cache ls` shows"
    add("--kind", nargs="+", default=[], help=about)
    add("--model", nargs="+", default=[], help="only these models, by name or fingerprint")
    add("--dataset", nargs="+", default=[], help="only these downloaded datasets, as `cache ls` shows")
    add("--yes", action="store_true", help="clear: do not ask for confirmation")
    add("--dry-run", action="store_true", help="clear, compact: show what would be done without changing anything")
    add("--json", action="store_true", help="ls: print JSON")


def run(args: argparse.Namespace) -> int:
    """Run the action on the selected items."""
    from eyechart.models.lazy_model import model_names
    from eyechart.store.maintenance import EMBEDDINGS, KINDS, RESPONSES, list_cache, remote_store

    address = remote_store()
    if address:
        write_message("Vectors are stored at {address}, which is not listed here.\n", sys.stderr, address=address)
    items = list_cache(model_names())
    for kind in args.kind:
        if kind not in KINDS:
            raise unknown_name("kind", kind, KINDS)
    by_model = [item for item in items if item.kind in (EMBEDDINGS, RESPONSES)]
    by_dataset = [item for item in items if item.name and item not in by_model]
    wanted = []
    for word, names, known in (("model", args.model, by_model), ("dataset", args.dataset, by_dataset)):
        for name in names:
            own = [item for item in known if name == item.name or item.path.name.startswith(name)]
            if not own:
                raise unknown_name(word, name, [item.name for item in known], advice="`eyechart cache ls` shows all.")
            wanted += own
    items = [item for item in items if item in wanted] if args.model or args.dataset else items
    kept = INDEX if args.action == "clear" and not (args.model or args.dataset or args.kind) else ()
    return ACTIONS[args.action](
        args, [i for i in items if i.kind not in kept and (i.kind in args.kind or not args.kind)]
    )


def _list(args: argparse.Namespace, items: Sequence[CacheItem]) -> int:
    from eyechart.io.files import cache_root
    from eyechart.store.maintenance import KINDS

    if args.json:
        rows = [{"kind": i.kind, "name": i.name, "path": str(i.path), "bytes": i.size, "files": i.files} for i in items]
        write_output(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", sys.stdout)
        return 0
    lines = [(i.kind, megabytes(i.size), str(i.files), i.name or KINDS[i.kind]) for i in items]
    columns = columns_of("KIND", "SIZE", "FILES", "WHAT", right=("SIZE", "FILES"), below=("FILES",), wraps=True)
    head, *rows_of_lines = lay_out(columns, lines, width_of(sys.stdout))
    write_output(f"{head[0]}\n", sys.stderr)
    write_output("".join(f"{line}\n" for row in rows_of_lines for line in row), sys.stdout)
    write_message("{n} in {cache_root}\n", sys.stderr, n=megabytes(sum(i.size for i in items)), cache_root=cache_root())
    return 0


def _clear(args: argparse.Namespace, items: Sequence[CacheItem]) -> int:
    from eyechart.store.maintenance import remove

    _list(argparse.Namespace(json=False), items)
    if args.dry_run or not items:
        write_message("Nothing was removed.\n", sys.stderr)
        return 0
    if not args.yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "Cannot ask for confirmation without a terminal.",
                advice="Use --yes to remove, or {--dry_run} to preview.",
            )
        write_message("Remove {n} items? Running evaluations may fail. [y/N] ", sys.stderr, n=len(items))
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            write_message("Nothing was removed.\n", sys.stderr)
            return 1
    for item in items:
        remove(item)
    write_message("Removed {size}.\n", sys.stderr, size=megabytes(sum(item.size for item in items)))
    return 0


def _verify(args: argparse.Namespace, items: Sequence[CacheItem]) -> int:  # noqa: ARG001 - as all actions
    from eyechart.store.maintenance import EMBEDDINGS, RESPONSES, verify

    damaged = pieces = 0
    for item in items:
        if item.kind in (EMBEDDINGS, RESPONSES):
            count, found = verify(item)
            pieces += count
            damaged += len(found)
            for line in found:
                write_message("{name}: {line}\n", sys.stdout, name=item.name, line=line)
    bad = UserMessage("{n} {n:is|are} damaged: a run sets {n:it|them} aside and recomputes {n:it|them}.", n=damaged)
    end = bad if damaged else UserMessage("All are intact.")
    write_message("Verified the checksums of {n} parts of vectors and answers. {end}\n", sys.stdout, n=pieces, end=end)
    return int(damaged > 0)


def _compact(args: argparse.Namespace, items: Sequence[CacheItem]) -> int:
    from eyechart.store.maintenance import EMBEDDINGS, CompactionSummary, compact_model

    found = CompactionSummary()
    would = "{name}: {n} of {m} files would be merged into {k}.\n"
    text = would if args.dry_run else "{name}: {n} of {m} files were merged into {k}.\n"
    for item in items:
        if item.kind == EMBEDDINGS:
            one = compact_model(item.path, dry_run=args.dry_run)
            found += one
            if one.merged:
                write_message(text, sys.stdout, name=item.name, n=one.merged, m=one.parts, k=one.into)
            for line in one.damaged:
                write_message("{name}: {line}\n", sys.stdout, name=item.name, line=line)
    if not found.merged:
        write_message("Nothing to merge in {n} vector files.\n", sys.stdout, n=found.parts)
    if found.damaged:
        text = "Damaged files: {n}. They were not changed: a run sets them aside and recomputes them.\n"
        write_message(text, sys.stdout, n=len(found.damaged))
    return int(bool(found.damaged))


def megabytes(size: int) -> str:
    """Format a size in kB, MB or GB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


ACTIONS: dict[str, Callable[[argparse.Namespace, Sequence[CacheItem]], int]] = {
    "ls": _list,
    "clear": _clear,
    "verify": _verify,
    "compact": _compact,
}
