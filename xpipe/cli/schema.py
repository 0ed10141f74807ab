"""`xpipe schema`: prints the JSON Schema of pipeline files. Holds no key of a section."""

from __future__ import annotations

import click


@click.command(short_help="Print the JSON Schema of pipeline files, for editors.")
def schema() -> None:
    """Print the JSON Schema of pipeline files, with which editors complete and check them.

    \b
    xpipe schema > xpipe.schema.json
    # first line of a pipeline file, for editors with a YAML language server:
    # yaml-language-server: $schema=xpipe.schema.json
    """
    import json

    from xpipe.config.schema import pipeline_schema

    click.echo(json.dumps(pipeline_schema(), indent=2))
