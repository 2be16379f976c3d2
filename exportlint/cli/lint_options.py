"""Options that ``exportlint check`` and ``exportlint config`` share: what stands over the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from exportlint.cli.paths import GivenPath
from exportlint.findings import MODES, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from exportlint.linting.settings import Resolver

Command = TypeVar("Command", bound="Callable[..., Any]")


class Names(click.ParamType[tuple[str, ...]]):
    """Names with commas between them."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:  # what click hands over
        """The names, without blanks around them."""
        names = tuple(name for part in str(value).split(",") if (name := part.strip()))
        if not names:
            self.fail("it names nothing", param, ctx)
        return names


def _names(option: str, key: str, words: str, metavar: str = "NAMES") -> Callable[[Command], Command]:
    return click.option(option, key, multiple=True, type=Names(), metavar=metavar, help=words)


OPTIONS = (
    _names(
        "--select", "select", "Rules that are on: codes, beginnings of codes (EXP2), names, families, ALL.", "RULES"
    ),
    _names("--extend-select", "extend_select", "Rules that are on besides those that are selected.", "RULES"),
    _names("--ignore", "ignore", "Rules that are off.", "RULES"),
    click.option(
        "--mode",
        "modes",
        multiple=True,
        type=click.Choice(MODES),
        help="Capture mode that findings are judged for; repeatable. compile: torch.compile(fullgraph=True).  "
        "[default: export]",
    ),
    click.option("--torch-version", metavar="RELEASE", help="Oldest release of torch that the project runs with."),
    click.option("--preview/--no-preview", default=None, help="Turn on rules that are not stable yet."),
    click.option(
        "--fail-level",
        type=click.Choice(SEVERITIES),
        help="Exit 1 from here up, shown or not.  [default: warning]",
    ),
    click.option("--show-info/--no-show-info", default=None, help="Show findings of severity info: advice only."),
    _names("--entry-point", "entry_points", "Dotted names of functions and methods that are captured, as forward is."),
    _names("--tensor-type", "tensor_types", "Dotted names of annotations that mean a tensor."),
    _names("--module-base", "module_bases", "Dotted names of classes that count as modules."),
    _names(
        "--tracing-predicate", "tracing_predicates", "Dotted names of functions that say whether a model is captured."
    ),
    click.option("--config", type=GivenPath(), metavar="FILE", help="Configuration file for all paths."),
    click.option("--isolated", is_flag=True, help="Read no configuration file."),
    _names(
        "--exclude", "exclude", "Patterns of files and folders to pass over, instead of the usual ones.", "PATTERNS"
    ),
    _names("--extend-exclude", "extend_exclude", "Further patterns of files and folders to pass over.", "PATTERNS"),
    click.option("--respect-gitignore/--no-respect-gitignore", default=None, help="Pass over what git ignores."),
    click.option(
        "--force-exclude/--no-force-exclude", default=None, help="Pass over excluded files that are named as well."
    ),
)
LISTS = (
    "select", "extend_select", "ignore", "entry_points", "tensor_types", "module_bases", "tracing_predicates",
    "exclude", "extend_exclude",
)  # fmt: skip
NAMES = (
    *LISTS, "modes", "torch_version", "preview", "fail_level", "show_info", "config", "isolated", "respect_gitignore",
    "force_exclude",
)  # fmt: skip


def settings_options(command: Command) -> Command:
    """Add the options to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def resolver(given: dict[str, Any]) -> Resolver:
    """The settings that a command was given; their options are taken out of `given`.

    Raises:
        SelectorError: When a selector means nothing.
        ConfigError: When the configuration file is none.
        UserError: When the release of torch is none.
    """
    from exportlint.config import ConfigError
    from exportlint.linting.linter import resolver_of

    values = {name: given.pop(name) for name in NAMES}
    for name in LISTS:
        values[name] = tuple(each for group in values[name] for each in group) or None
    values["modes"] = tuple(dict.fromkeys(values["modes"])) or None
    file = values["config"]
    if file is not None and values["isolated"]:
        raise ConfigError(f"--config {file}: --isolated reads no configuration; leave one of them out")
    if file is not None and not file.is_file():
        raise ConfigError(f"--config {file}: {'is a folder' if file.is_dir() else 'no such file'}")
    return resolver_of(**values)
