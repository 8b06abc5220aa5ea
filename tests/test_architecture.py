"""Layers, lazy imports and public names, read from the source."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import gpufeed

PACKAGE = Path(gpufeed.__file__).parent

# From the bottom up. An edge may go down any number of levels, or stay on one where that makes no cycle.
LEVELS = (
    {"errors"},
    {
        "options",
        "config",
        "result_files",
        "spec",
        "plan",
        "draws",
        "geometry",
        "matrices",
        "noise",
        "parameters",
        "bounds",
        "boxes",
        "cpus",
        "temporary",
        "stats",
        "threads",
        "replaying",
    },
    {"placement", "sampling", "devices", "printing"},
    {"graph", "tail", "tensors", "translation", "sources", "reference"},
    {"recovery", "feed", "pipelines", "filling", "prefetch"},
    {"recording"},
    {"stages", "device_stages", "collation", "ops"},
    {"pipeline_stages"},
    {"iteration"},
    {"loader"},
    {"bench", "inspect"},
    {"cli"},
    {"__main__"},
)
RANK = {unit: rank for rank, units in enumerate(LEVELS) for unit in units}
BARE = LEVELS[0] | LEVELS[1] - {"threads"}
"""Units that need the standard library and NumPy only."""


def modules() -> dict[str, ast.Module]:
    """Every module of the package, as ``graph.check``, with its syntax tree; the root package apart."""
    found: dict[str, ast.Module] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] == "shipped" or parts == ("__init__",):
            continue
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


MODULES = modules()


def imports(tree: ast.AST, *, late: bool = True) -> set[str]:
    """Names of the modules that a module imports, ``from a import b`` as ``a.b``; ``TYPE_CHECKING`` blocks included."""
    names: set[str] = set()
    for node in ast.walk(tree) if late else ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own_imports(name: str) -> set[str]:
    """The package's own modules that a module imports."""
    found: set[str] = set()
    for imported in imports(MODULES[name]):
        if imported.startswith("gpufeed."):
            inside = imported.removeprefix("gpufeed.")
            while inside and inside not in MODULES:
                inside = inside.rpartition(".")[0]
            found |= {inside} if inside else set()
    return found - {name}


def unit(name: str) -> str:
    return name.partition(".")[0]


def test_every_module_has_a_level() -> None:
    assert {unit(name) for name in MODULES} <= RANK.keys()


def test_no_edge_runs_upward() -> None:
    upward = [
        f"{name} -> {target}"
        for name in MODULES
        for target in own_imports(name)
        if RANK[unit(target)] > RANK[unit(name)]
    ]
    assert not upward


def test_no_cycles() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"cycle: {' -> '.join((*path, name))}"
        if name in done:
            return
        for target in own_imports(name):
            visit(target, (*path, name))
        done.add(name)

    for name in MODULES:
        visit(name, ())


def test_the_lowest_units_need_the_standard_library_and_numpy_only() -> None:
    allowed = sys.stdlib_module_names | {"numpy", "gpufeed"}
    for name in MODULES:
        if unit(name) in BARE:
            assert {imported.partition(".")[0] for imported in imports(MODULES[name])} <= allowed, name


def imported_with(module: str) -> set[str]:
    """Top-level names in ``sys.modules`` after importing a module in a fresh interpreter."""
    code = (
        f"import sys, {module}\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, 'nvidia.dali' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return set(output[:-1]) | ({"dali"} if output[-1] == "True" else set())


def test_every_module_can_be_the_first_that_is_imported() -> None:
    code = (
        "import importlib, sys\n"
        f"for name in {sorted(MODULES)!r}:\n"
        "    for known in [known for known in sys.modules if known.partition('.')[0] == 'gpufeed']:\n"
        "        del sys.modules[known]\n"
        "    if name != '__main__':\n"
        "        importlib.import_module('gpufeed.' + name)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_translation_never_imports_dali_and_the_graph_never_torchvision() -> None:
    assert "dali" not in imported_with("gpufeed.translation")
    graph = imported_with("gpufeed.graph.device, gpufeed.graph.decoding, gpufeed.graph.check, gpufeed.graph.formats")
    assert "dali" in graph
    assert "torchvision" not in graph


def test_importing_gpufeed_imports_nothing_heavy() -> None:
    assert not imported_with("gpufeed") & {"torch", "torchvision", "dali", "numpy"}


def test_help_imports_neither_torch_nor_dali() -> None:
    code = (
        "import sys\n"
        "from gpufeed.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    assert not {'torch', 'nvidia.dali', 'torchvision'} & sys.modules.keys(), 'heavy import'\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "compare" in result.stdout


def test_public_names_are_those_in_all() -> None:
    assert sorted(gpufeed.__all__) == list(gpufeed.__all__)
    assert dir(gpufeed) == sorted(gpufeed.__all__)
    for name in gpufeed.__all__:
        assert getattr(gpufeed, name) is not None


def test_every_module_declares_all_and_it_holds() -> None:
    for name, tree in MODULES.items():
        public = {
            node.name
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        }
        if not public:
            continue
        declared = importlib.import_module(f"gpufeed.{name}").__all__
        assert public <= set(declared), f"{name}: {public - set(declared)} not in __all__"


def test_nothing_prints_but_the_command_line_and_its_progress() -> None:
    for name, tree in MODULES.items():
        if unit(name) == "cli" or name == "bench.progress":
            continue
        prints = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "print"]
        assert not prints, name
