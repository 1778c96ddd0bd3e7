"""Pages of the site that say what the code says: every command with its options, every public call of Python."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterator
from typing import Any

import click

COMMANDS, PYTHON = "reference/commands.md", "reference/python.md"


def commands_page() -> str:
    """Every command of `hil`, as `--help` prints it, as a table of options."""
    from tinyhil.harness.cli import hil

    parts = [
        "# Every option of every command",
        "What `hil COMMAND --help` prints; [the command `hil`](../cli.md) says what belongs together, and exit codes.",
    ]
    for name, command in _commands(hil, "hil"):
        parts += _command(name, command)
    return "\n\n".join(parts) + "\n"


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


def _command(name: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    records = [found for one in command.get_params(context) if (found := one.get_help_record(context))]
    rows = "\n".join(f"| {_code(flags)} | {_cell(said)} |" for flags, said in records)
    said = inspect.cleandoc(command.help or "").replace("\b\n", "")
    return [f"## {name}", f"```\n{usage}\n```", said, f"| Option | Meaning |\n|---|---|\n{rows}"]


def _code(text: str) -> str:
    """HTML, since Markdown shows the backslash of a bar within its code; a narrow column breaks behind bars."""
    return f'<code class="option">{html.escape(" ".join(text.split())).replace("|", "&#124;<wbr>")}</code>'


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def python_page() -> str:
    """What `import tinyhil` offers: signatures and docstrings."""
    import tinyhil

    parts = [
        "# Every call of `import tinyhil`",
        "Signatures and docstrings as they stand in the code; [Python](../python.md) shows them at work.",
    ]
    for name in sorted(vars(tinyhil)["__all__"]):
        found = getattr(tinyhil, name)
        if inspect.ismodule(found):
            errors = [one for one in vars(found).values() if inspect.isclass(one) and issubclass(one, Exception)]
            parts.append(f"## tinyhil.{name}\n\n{inspect.getdoc(found)}")
            parts.append("\n".join(f"- `{one.__name__}`: {_cell(inspect.getdoc(one) or '')}" for one in errors))
        elif inspect.isclass(found):
            parts.append(f"## tinyhil.{name}\n\n{inspect.getdoc(found)}")
            parts += [_call(f"{name}.{method}", call) for method, call in _methods(found)]
        else:
            parts.append(_call(f"tinyhil.{name}", found, "##"))
    return "\n\n".join(parts) + "\n"


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name, call in vars(owner).items():
        if not name.startswith("_") and (inspect.isfunction(call) or isinstance(call, property)):
            yield name, call


def _call(name: str, call: Any, depth: str = "###") -> str:
    if isinstance(call, property):
        return f"{depth} {name}\n\n{inspect.getdoc(call) or ''}"
    signature = str(inspect.signature(call)).replace("'", "")
    return f"{depth} {name}\n\n```python\n{name}{signature}\n```\n\n{inspect.getdoc(call) or ''}"
