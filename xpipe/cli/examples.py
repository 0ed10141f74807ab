"""`xpipe examples`: lists the pipelines that come with the package, or prints one. Runs none."""

from __future__ import annotations

import click


@click.command(short_help="List the pipelines that come with the package, or print one.")
@click.argument("name", required=False)
def examples(name: str | None) -> None:
    """List the pipelines that come with the package; with NAME, print that one.

    \b
    xpipe run tiny                  run one by its name
    xpipe examples tiny > mine.yaml  start your own from it
    """
    from xpipe.config.examples import example_pipelines, first_comment
    from xpipe.errors import ConfigError
    from xpipe.ground.close_match import did_you_mean

    found = example_pipelines()
    if name is not None:
        if name not in found:
            fix = did_you_mean(name, found) or f"one of {', '.join(found)}"
            raise ConfigError(f"there is no example {name!r}", fix=fix)
        click.echo(found[name].read_text(encoding="utf-8"), nl=False)
        return
    from xpipe.cli.console import new_console, new_table

    table = new_table("name", "what it shows")
    for example, path in found.items():
        table.add_row(example, first_comment(path))
    new_console().print(table)
    click.echo("run one: xpipe run tiny")
