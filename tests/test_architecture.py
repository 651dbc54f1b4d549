"""The house's rules, checked: imports follow the listed arrows, nothing prints, nothing heavy at import."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "eyechart"
FILES = sorted(ROOT.rglob("*.py"))
BELOW = "messages errors settings io types plugins languages benchmarks demo"
"""What every room stands on."""
ARROWS = {
    "messages": "",
    "errors": "messages",
    "io": "errors messages",
    "settings": "errors messages",
    "types": "errors settings io messages",
    "plugins": "errors messages",
    "languages": "errors io messages",
    "benchmarks": "languages",
    "demo": "",
    "provenance": "__init__ io",
    "api": "errors io types messages __init__",
    "metrics": f"{BELOW}",
    "stats": f"{BELOW} metrics",
    "learn": f"{BELOW} metrics",
    "store": f"{BELOW} metrics",
    "manifest": f"{BELOW} metrics store",
    "results": f"{BELOW} provenance",
    "models": f"{BELOW} api metrics",
    "datasets": f"{BELOW} api manifest metrics",
    "scorers": f"{BELOW} metrics stats datasets",
    "inference": f"{BELOW} store manifest models metrics",
    "tasks": f"{BELOW} inference manifest metrics stats learn scorers datasets models store",
    "config": f"{BELOW}",
    "outputs": f"{BELOW} datasets results",
    "plan_models": f"{BELOW} config models",
    "plan": f"{BELOW} config outputs plan_models datasets models tasks",
    "session": f"{BELOW} __init__ datasets inference manifest models store tasks",
    "run": f"{BELOW} provenance session results report tasks inference manifest models",
    "python_api": f"{BELOW} __init__ config engine plan plan_models session run results report models datasets"
    " inference tasks manifest metrics outputs store provenance",
    "estimate": f"{BELOW} config plan plan_models models datasets store results tasks session run",
    "engine": f"{BELOW} run session inference models tasks",
    "compat.import_shim": "errors messages compat.clip_benchmark compat.evalscope compat.vlmevalkit",
    "compat": "cli compat.import_shim",
    "compat.spawned": "compat",
    "compat.clip_benchmark": f"{BELOW} manifest models datasets tasks metrics learn",
    "compat.vlmevalkit": f"{BELOW} api datasets scorers models inference store metrics",
    "compat.evalscope": f"{BELOW} provenance api config outputs plan run session estimate models datasets tasks results"
    " report",
    "vlm": "compat.vlmevalkit",
    "report": f"{BELOW} results stats metrics",
    "cli": f"{BELOW} __init__ api config plan plan_models session run estimate engine models datasets store tasks"
    " manifest provenance results report python_api compat.import_shim compat.clip_benchmark compat.evalscope",
    "__init__": "*",
    "__main__": "cli",
}
"""Who may import whom, function-level imports and modules named by strings included: a graph without cycles."""
HEAVY = {
    "torch", "torchvision", "transformers", "open_clip", "onnxruntime", "ray", "sklearn", "scipy", "pyarrow", "mteb",
    "sentence_transformers", "huggingface_hub", "modelscope", "tensorflow_datasets", "httpx2", "rich", "jinja2",
    "pandas", "matplotlib", "datasets", "IPython", "timm",
}  # fmt: skip
NETWORKS = {"models/internvl/network.py"}
"""They define torch modules, so they need torch at once; whoever uses them imports them inside a function."""
MAY_PRINT = {"cli", "io/progress.py", "__main__"}
LOGGERS = ("logging.getLogger", "logging.Logger")
NAMED = re.compile(r"(?:\w+=)?(eyechart(?:\.[a-z_]+)+)(?::\w+)?")
"""A module named by a string, to be imported later: ``module``, ``module:name`` or ``other=module:name``."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def area_of(parts) -> str:
    """Name the room of a module: its first part, or two parts for the surfaces of other tools."""
    parts = [part.removesuffix(".py") for part in parts]
    return ".".join(parts[:2]) if parts[0] == "compat" and len(parts) > 1 and parts[1] != "__init__" else parts[0]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def area(path: Path) -> str:
    return area_of(path.relative_to(ROOT).parts)


def is_module(name: str) -> bool:
    base = ROOT.parent.joinpath(*name.split("."))
    return base.with_suffix(".py").is_file() or (base / "__init__.py").is_file()


@cache
def imports(path: Path, *, top_level: bool) -> tuple[str, ...]:
    """Return the modules that a file imports (at its top level only, or anywhere), type checking left out."""
    return tuple(_imports(path, top_level=top_level))


def _imports(path: Path, *, top_level: bool):
    tree = tree_of(path)
    typing_only = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    loggers = {node.args[0] for node, name in calls_of(path) if name in LOGGERS and node.args}
    for node in tree.body if top_level else ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module in ("eyechart", "eyechart.compat"):
                inner = (f"{node.module}.{alias.name}" for alias in node.names)
                yield from (name for name in inner if is_module(name) or name == "eyechart.__version__")
        elif not top_level and isinstance(node, ast.Constant) and node not in loggers:
            named = NAMED.fullmatch(str(node.value))
            if named and is_module(named[1]):
                yield named[1]


def rooms_of(path: Path):
    """Yield the other rooms that a file needs, with the module that it names."""
    here = area(path)
    for module in imports(path, top_level=False):
        parts = module.split(".")
        if parts[0] == "eyechart" and len(parts) > 1:
            there = area_of(parts[1:]) if not parts[1].startswith("__") else "__init__"
            if there != here:
                yield there, module


def test_imports_follow_the_arrows():
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in FILES
        for there, module in rooms_of(path)
        if ARROWS[area(path)] != "*" and there not in ARROWS[area(path)].split()
    ]

    assert not wrong, "\n".join(wrong)


def test_the_arrows_have_no_cycle():
    ground: set[str] = set()
    left = {name: set(text.split()) for name, text in ARROWS.items() if text != "*"}
    left |= {"__init__": set()}  # above everything; public names are imported when they are used
    while left:
        free = [name for name, needs in left.items() if needs - {"__init__"} <= ground]
        assert free, f"a cycle among {', '.join(left)}"
        ground |= set(free)
        left = {name: needs for name, needs in left.items() if name not in ground}


def test_heavy_libraries_are_imported_inside_functions():
    found = {
        name_of(path): heavy
        for path in FILES
        if name_of(path) not in NETWORKS
        if (heavy := {module.split(".")[0] for module in imports(path, top_level=True)} & HEAVY)
    }

    assert found == {}


def test_networks_are_imported_inside_functions():
    modules = {f"eyechart.{name.removesuffix('.py').replace('/', '.')}" for name in NETWORKS}
    others = [path for path in FILES if name_of(path) not in NETWORKS]

    assert [name_of(path) for path in others if modules & set(imports(path, top_level=True))] == []


def calls_of(path: Path):
    """Yield the calls of a module with the name of what is called."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node, ast.unparse(node.func)


def test_only_the_command_line_writes_to_the_terminal():
    quiet = [path for path in FILES if area(path) not in MAY_PRINT and name_of(path) not in MAY_PRINT]
    writing = ("print", "sys.stdout.write", "sys.stderr.write")

    assert [(name_of(path), name) for path in quiet for _, name in calls_of(path) if name in writing] == []


def test_nothing_is_evaluated_unpickled_or_passed_to_a_shell():
    forbidden = ("eval", "exec", "os.system", "pickle.load", "pickle.loads")

    assert [
        f"{name_of(path)}:{node.lineno} {name}"
        for path in FILES
        for node, name in calls_of(path)
        if name in forbidden or any(keyword.arg == "shell" for keyword in node.keywords)
    ] == []


def test_every_package_has_a_folder_of_tests():
    """`make check ROOM=store` finds the tests of a package by its name; the other folders test the whole product."""
    packages = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()} - {"words"}
    whole = {"data", "docs", "end_to_end", "examples", "golden", "scripts", "support"}
    folders = {path.name for path in Path(__file__).parent.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == packages | whole
