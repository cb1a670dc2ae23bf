"""The layers import downwards only, and the package's docstring names them as they are.

The root docstring lists one layer a line, lowest first, as `    name   what it holds   <- a, b`. A module may
import its own layer and those that its line names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import midstream

ROOT = Path(midstream.__file__).parent
LINE = re.compile(r"^ {4}(?P<layer>[a-z]+) {2,}(?P<holds>\S.*?) {2,}<- (?P<imports>[a-z, ]+|nothing)$", re.MULTILINE)
OUTSIDE = {
    "pyspark": {"spark"},
    "sqlglot": {"sql", "plan"},
    "deltalake": {"storage"},
    "click": {"cli"},
    "rich": {"cli"},
}
"""Which layer alone may import a library that shapes the design."""


def layers_in_docstring() -> dict[str, set[str]]:
    lines = LINE.finditer(midstream.__doc__ or "")
    return {m["layer"]: set() if m["imports"] == "nothing" else set(m["imports"].split(", ")) for m in lines}


def layers_on_disk() -> set[str]:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    return folders | {path.stem for path in ROOT.glob("*.py") if path.stem != "__init__"}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        first = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if first != "__init__":
            yield first, path


def imported_names(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written out in full"
            if node.module == "midstream":
                yield from ((f"midstream.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module or "", node.lineno


def imports() -> Iterator[tuple[str, str, str]]:
    """(layer, imported name, place) of every import in the package."""
    for layer, path in modules():
        for name, line in imported_names(path):
            yield layer, name, f"{path.relative_to(ROOT)}:{line}"


def test_the_docstring_lists_every_layer_once() -> None:
    assert set(layers_in_docstring()) == layers_on_disk()


def test_the_docstring_lists_lower_layers_first() -> None:
    seen: set[str] = set()
    for layer, below in layers_in_docstring().items():
        assert below <= seen, f"{layer} imports {below - seen}, which stands below it"
        seen.add(layer)


def test_modules_import_only_what_their_layer_may() -> None:
    allowed = layers_in_docstring()
    wrong = []
    for layer, name, place in imports():
        package, _, inner = name.partition(".")
        target = inner.partition(".")[0]
        if package == "midstream" and target in allowed and target != layer and target not in allowed[layer]:
            wrong.append(f"{place}: {layer} imports {target}")
    assert wrong == []


def test_libraries_that_shape_the_design_stay_in_their_layer() -> None:
    wrong = [
        f"{place}: {layer} imports {name}"
        for layer, name, place in imports()
        if layer not in OUTSIDE.get(name.partition(".")[0], {layer})
    ]
    assert wrong == []
