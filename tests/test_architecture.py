"""The house's rules, checked: imports point one way, nothing prints, nothing heavy at import."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "eyechart"
FILES = sorted(ROOT.rglob("*.py"))
LAYERS = [
    {
        "errors",
        "untrusted",
        "types",
        "media",
        "files",
        "blobs",
        "progress",
        "progress_file",
        "stopwatch",
        "demo",
        "languages",
        "thumbnails",
    },
    {"metrics", "stats", "learn", "store", "results", "responses", "manifest", "provenance", "api"},
    {"tasks", "models", "datasets", "generators", "rerankers"},
    {"plugins", "config", "outputs", "plan", "task_config"},
    {"run", "engine", "report", "doctor", "vlm"},
    {"workflow"},
    {"cli", "__main__", "__init__"},
]
"""From the ground up: a module may import from its own layer and from those below."""
SEPARATE = {"tasks", "models", "datasets"}
"""They share a layer but never import each other."""
HEAVY = {
    "torch", "torchvision", "transformers", "open_clip", "onnxruntime", "ray", "sklearn", "scipy", "pyarrow", "mteb",
    "sentence_transformers", "huggingface_hub", "modelscope", "tensorflow_datasets", "httpx2", "rich", "jinja2",
}  # fmt: skip
NETWORKS = {"models/internvl_c.py"}
"""They define torch modules, so they need torch at once; whoever uses them imports them inside a function."""
MAY_PRINT = {"cli", "progress", "__main__"}


def area(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path, *, top_level: bool):
    """Yield the modules that a file imports (at its top level only, or anywhere), type checking left out."""
    tree = ast.parse(path.read_text())
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
            if node.module == "eyechart":
                yield from (f"eyechart.{alias.name}" for alias in node.names if not alias.name.startswith("__"))


def layer(name: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    here = area(path)
    for module in imports(path, top_level=False):
        parts = module.split(".")
        if parts[0] == "eyechart" and len(parts) > 1 and parts[1] != here:
            there = parts[1]
            assert layer(there) <= layer(here), f"{here} must not import {module}"
            assert not {here, there} <= SEPARATE, f"{here} must not import {module}"


def test_the_report_needs_results_and_statistics_only():
    allowed = {
        "errors",
        "untrusted",
        "types",
        "media",
        "files",
        "results",
        "stats",
        "report",
        "progress",
        "progress_file",
        "metrics",
        "languages",
    }
    for path in (ROOT / "report").rglob("*.py"):
        for module in imports(path, top_level=False):
            if module.startswith("eyechart."):
                assert module.split(".")[1] in allowed, f"{path.name} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_are_imported_inside_functions(path):
    if str(path.relative_to(ROOT)) in NETWORKS:
        return
    found = {module.split(".")[0] for module in imports(path, top_level=True)} & HEAVY

    assert not found


def test_networks_are_imported_inside_functions():
    modules = {f"eyechart.{name.removesuffix('.py').replace('/', '.')}" for name in NETWORKS}
    for path in FILES:
        assert not modules & set(imports(path, top_level=True)), path


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_command_line_writes_to_the_terminal(path):
    if area(path) in MAY_PRINT:
        return
    tree = ast.parse(path.read_text())
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}

    assert not calls & {"print", "sys.stdout.write", "sys.stderr.write"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_evaluated_unpickled_or_passed_to_a_shell(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in ("eval", "exec", "os.system", "pickle.load", "pickle.loads"), name
            assert not any(keyword.arg == "shell" for keyword in node.keywords), name
