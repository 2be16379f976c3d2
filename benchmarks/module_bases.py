"""Write the table of module classes of well-known packages: ``exportlint/torch_facts/module_bases.json``.

    python benchmarks/module_bases.py SITE_PACKAGES [OUTPUT]

A user's class that inherits from one of them is a module, although the linter cannot see the package where it runs.
The packages are read with the linter's own index, never imported. Entries of packages that are not found are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from exportlint.source.discover import discover
from exportlint.source.files import UnreadableError
from exportlint.source.project import Project

FOLDER = Path(__file__).parent.parent / "exportlint" / "torch_facts"
PACKAGES = ("transformers", "timm", "torchvision", "lightning", "pytorch_lightning", "torchaudio", "diffusers")


def module_classes(site: Path, package: str) -> list[str]:
    """Names of the package's public classes that inherit from ``torch.nn.Module``."""
    project, names = Project(), set()
    for path in discover([site / package]):
        try:
            module = project.module(path)
        except UnreadableError:
            continue
        for cls in module.classes.values():
            if project.is_module(cls) and not cls.name.startswith("_"):
                names.add(cls.name)
    return sorted(names)


def version(site: Path, package: str) -> str:
    """The installed version of the package; empty where its metadata are not there."""
    found: list[Distribution] = [d for d in distributions(path=[str(site)]) if d.metadata["Name"] == package]
    return found[0].version if found else ""


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("output", nargs="?", type=Path, default=FOLDER / "module_bases.json")
    arguments = parser.parse_args()
    table = {"versions": {}, "bases": {}}
    if arguments.output.is_file():
        table = json.loads(arguments.output.read_text(encoding="utf-8"))
    for package in PACKAGES:
        if (arguments.site / package).is_dir():
            table["bases"][package] = module_classes(arguments.site, package)
            table["versions"][package] = version(arguments.site, package)
            print(f"{package} {table['versions'][package]}: {len(table['bases'][package])} names")
    temporary = arguments.output.with_suffix(".tmp")
    temporary.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
