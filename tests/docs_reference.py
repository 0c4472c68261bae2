"""The reference of the site: a page for each command, and for each part of docs/reference/api.md; hooks of mkdocs.

Options that most sub-commands of a command have, as operators do, stand once. `::: carver.NAME` is what mkdocstrings
reads.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from docs_site import table

from carver.cli.main import GROUPS, main

DOCS = Path(__file__).resolve().parent.parent / "docs"
PYTHON, SHELL = "reference/api.md", "reference/cli.md"


def options(params: Iterable[click.Parameter], context: click.Context) -> str:
    """A table of options, as `--help` tells them."""
    told = [each.get_help_record(context) for each in params]
    rows = [(f"`{names}`", text.replace("|", "\\|").replace("<", "&lt;")) for names, text in filter(None, told)]
    return table(["option", ""], rows) + "\n" if rows else ""


def prose(command: click.Command) -> str:
    """The help of a command; what it prints as it stands is a block of code."""
    parts = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(
        "```text\n" + inspect.cleandoc(part.partition("\n")[2]) + "\n```" if part.startswith("\b") else part
        for part in parts
    )


def usage(command: click.Command, context: click.Context) -> str:
    return f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```\n"


def commands(names: Iterable[str], group: click.Group, context: click.Context, link: str) -> str:
    """A table of sub-commands."""
    found = [(name, group.get_command(context, name)) for name in names]
    return table(["command", ""], [
        [f"[`{name}`]({link.format(name)})", each.get_short_help_str(1000)] for name, each in found if each is not None
    ]) + "\n"  # fmt: skip


def command_page(name: str) -> Iterator[str]:
    """Usage, help and options of a command. Options that most of its sub-commands have stand once."""
    above = click.Context(main, info_name="carver", **main.context_settings)
    command = main.get_command(above, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=above)
    yield f"# carver {name}\n\n{prose(command)}\n\n{usage(command, context)}"
    yield options(command.params, context)
    if not isinstance(command, click.Group):
        return
    names = sorted(command.list_commands(context))
    yield commands(names, command, context, f"#carver-{name}-{{}}")
    under = {}
    for each in names:
        sub = command.get_command(context, each)
        assert sub is not None
        under[each] = (sub, click.Context(sub, info_name=each, parent=context))
    has = {each: {str(p.get_help_record(c)): p for p in sub.params} for each, (sub, c) in under.items()}
    count = Counter(record for records in has.values() for record in records if record != "None")
    shared = [record for record, n in count.items() if n > max(2, len(names) / 2)]
    if shared:
        yield "## Options of most of them\n"
        first = {record: each for each in reversed(names) for record in has[each]}
        yield options([has[first[r]][r] for r in shared], context)
    for each, (sub, inner) in under.items():
        own = prose(sub).removesuffix(prose(command)).rstrip()
        yield f"## carver {name} {each}\n\n{own}\n\n{usage(sub, inner)}"
        lacks = [str(has[first[r]][r].opts[0]) for r in shared if r not in has[each]] if shared else []
        yield options([p for record, p in has[each].items() if record not in shared], inner)
        yield f"Without {', '.join(f'`{option}`' for option in lacks)}.\n" if lacks else ""


def python_parts() -> dict[str, tuple[str, str]]:
    """The parts of the Python reference: of each the title and the text, by the name of its page."""
    text = (DOCS / PYTHON).read_text(encoding="utf-8")
    parts = (part.partition("\n") for part in text.split("\n## ")[1:])
    return {re.sub(r"\W+", "-", title.lower()): (title, body) for title, _, body in parts}


def on_config(config: Any, **_: Any) -> Any:
    """The pages that are made here, in the navigation below the page that names them."""
    below = {
        PYTHON: [{title: f"reference/api/{name}.md"} for name, (title, _) in python_parts().items()],
        SHELL: [{name: f"reference/cli/{name}.md"} for names in GROUPS.values() for name in names],
    }
    for section in config["nav"]:
        for each in (entry for entries in section.values() for entry in entries if isinstance(entry, dict)):
            for title, file in each.items():
                if file in below:
                    each[title] = [{"Overview": file}, *below[file]]
    return config


def on_files(files: Any, config: Any, **_: Any) -> Any:
    from mkdocs.structure.files import File

    for name, (title, body) in python_parts().items():
        files.append(File.generated(config, f"reference/api/{name}.md", content=f"# {title}\n{body}"))
    for names in GROUPS.values():
        for name in names:
            text = "\n".join(command_page(name))
            files.append(File.generated(config, f"reference/cli/{name}.md", content=text))
    return files


def overview(markdown: str, name: str) -> str:
    """What the pages of the reference say of those below them."""
    if name == SHELL:
        context = click.Context(main, info_name="carver")
        told = (f"## {title}\n\n{commands(names, main, context, 'cli/{}.md')}" for title, names in GROUPS.items())
        return "\n".join([markdown, *told])
    head, _, _ = markdown.partition("\n## ")
    listed = []
    for each, (title, body) in python_parts().items():
        names = re.findall(r"^::: carver[.](?:[a-z_]+[.])*(.+)$", body, re.MULTILINE)
        listed.append(f"## {title}\n\n[{', '.join(f'`{found}`' for found in names)}](api/{each}.md)\n")
    return "\n".join([f"{head}\n", *listed])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return overview(markdown, page.file.src_uri) if page.file.src_uri in (PYTHON, SHELL) else markdown
