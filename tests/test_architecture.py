"""The house's rules, checked: imports follow the listed arrows, nothing prints, nothing heavy at import."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "eyechart"
FILES = sorted(ROOT.rglob("*.py"))
BELOW = "errors io types plugins languages benchmarks demo"
"""What every room stands on."""
ARROWS = {
    "errors": "",
    "io": "errors",
    "types": "errors io",
    "plugins": "errors",
    "languages": "errors io",
    "benchmarks": "languages",
    "demo": "",
    "provenance": "__init__",
    "api": "errors io __init__",
    "metrics": f"{BELOW}",
    "stats": f"{BELOW} metrics",
    "learn": f"{BELOW} metrics",
    "store": f"{BELOW}",
    "manifest": f"{BELOW} store",
    "results": f"{BELOW} provenance",
    "models": f"{BELOW} api metrics",
    "datasets": f"{BELOW} api manifest metrics",
    "scorers": f"{BELOW} metrics stats datasets",
    "inference": f"{BELOW} store manifest models metrics",
    "tasks": f"{BELOW} inference manifest metrics stats learn scorers datasets models store",
    "like": "",
    "config": f"{BELOW} like",
    "outputs": f"{BELOW} datasets",
    "plan_models": f"{BELOW} config models",
    "plan": f"{BELOW} like config outputs plan_models datasets models tasks",
    "session": f"{BELOW} __init__ datasets inference manifest models store tasks",
    "run": f"{BELOW} session results tasks inference manifest",
    "calls": f"{BELOW} __init__ config plan plan_models session run results report models datasets inference tasks"
    " manifest metrics store provenance",
    "estimate": f"{BELOW} config plan plan_models models datasets store results tasks",
    "engine": f"{BELOW} run session inference tasks",
    "compat.acting": "errors",
    "compat.spawned": "compat.acting",
    "compat.clip_benchmark": f"{BELOW} cli config engine plan run session manifest models datasets tasks metrics learn",
    "compat.vlmevalkit": f"{BELOW} api datasets scorers models inference store metrics",
    "compat.evalscope": f"{BELOW} provenance api config outputs plan run session manifest models datasets tasks"
    " results stats",
    "vlm": "compat.vlmevalkit",
    "report": f"{BELOW} results stats metrics",
    "doctor": f"{BELOW} models datasets store",
    "cli": "*",
    "__init__": "*",
    "__main__": "cli",
}
"""Who may import whom, function-level imports and plugin strings included: a graph without cycles."""
HEAVY = {
    "torch", "torchvision", "transformers", "open_clip", "onnxruntime", "ray", "sklearn", "scipy", "pyarrow", "mteb",
    "sentence_transformers", "huggingface_hub", "modelscope", "tensorflow_datasets", "httpx2", "rich", "jinja2",
    "pandas", "matplotlib", "datasets", "IPython",
}  # fmt: skip
NETWORKS = {"compat/clip_benchmark/featurizer.py", "models/internvl/blocks.py", "models/internvl/network.py"}
"""They define torch modules, so they need torch at once; whoever uses them imports them inside a function."""
MAY_PRINT = {"cli", "io/progress/__init__.py", "__main__"}
PLUGIN = re.compile(r"eyechart(\.[a-z_]+)+:[A-Za-z_]+")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def area_of(parts) -> str:
    """Name the room of a module: its first part, or two parts for the surfaces of other tools."""
    parts = [part.removesuffix(".py") for part in parts]
    return ".".join(parts[:2]) if parts[0] == "compat" and len(parts) > 1 and parts[1] != "__init__" else parts[0]


def area(path: Path) -> str:
    return area_of(path.relative_to(ROOT).parts)


def imports(path: Path, *, top_level: bool):
    """Yield the modules that a file imports (at its top level only, or anywhere), type checking left out."""
    tree = tree_of(path)
    typing_only = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in tree.body if top_level else ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module in ("eyechart", "eyechart.compat"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not top_level and isinstance(node, ast.Constant) and PLUGIN.fullmatch(str(node.value)):
            yield str(node.value).partition(":")[0]


def rooms_of(path: Path):
    """Yield the other rooms that a file needs, with the module that it names."""
    here = area(path)
    for module in imports(path, top_level=False):
        parts = module.split(".")
        if parts[0] == "eyechart" and len(parts) > 1:
            there = area_of(parts[1:]) if not parts[1].startswith("__") else "__init__"
            if there not in (here, "compat"):
                yield there, module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    here = area(path)
    if here == "compat":  # the package of the surfaces holds nothing of its own
        return
    allowed = ARROWS[here].split()
    for there, module in rooms_of(path):
        assert allowed == ["*"] or there in allowed, f"{here} must not import {module}"


def test_the_arrows_have_no_cycle():
    ground: set[str] = set()
    left = {name: set(text.split()) for name, text in ARROWS.items() if text != "*"}
    left |= {"__init__": set(), "cli": set()}  # above everything; public names are imported when they are used
    while left:
        free = [name for name, needs in left.items() if needs - {"__init__"} <= ground]
        assert free, f"a cycle among {', '.join(left)}"
        ground |= set(free)
        left = {name: needs for name, needs in left.items() if name not in ground}


def test_a_name_of_a_class_is_used_once():
    names = Counter(node.name for path in FILES for node in tree_of(path).body if isinstance(node, ast.ClassDef))

    assert not [name for name, count in names.items() if count > 1]


def test_a_folder_has_a_subject_and_few_files():
    sizes = Counter(path.parent for path in FILES if path.name != "__init__.py")

    assert {
        str(folder.relative_to(ROOT)): n for folder, n in sizes.items() if n > MOST_FILES.get(folder.name, 18)
    } == {}


MOST_FILES = {"datasets": 23}
"""Readers are many and alike."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_are_imported_inside_functions(path):
    if str(path.relative_to(ROOT)) in NETWORKS:
        return
    found = {module.split(".")[0] for module in imports(path, top_level=True)} & HEAVY

    assert not found


def test_networks_are_imported_inside_functions():
    modules = {f"eyechart.{name.removesuffix('.py').replace('/', '.')}" for name in NETWORKS}
    for path in FILES:
        if str(path.relative_to(ROOT)) not in NETWORKS:
            assert not modules & set(imports(path, top_level=True)), path


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_command_line_writes_to_the_terminal(path):
    if area(path) in MAY_PRINT or str(path.relative_to(ROOT)) in MAY_PRINT:
        return
    tree = tree_of(path)
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}

    assert not calls & {"print", "sys.stdout.write", "sys.stderr.write"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_evaluated_unpickled_or_passed_to_a_shell(path):
    tree = tree_of(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in ("eval", "exec", "os.system", "pickle.load", "pickle.loads"), name
            assert not any(keyword.arg == "shell" for keyword in node.keywords), name
