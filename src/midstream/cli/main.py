"""The commands, their options and exit codes: 0 all is well, 1 a statement failed, 2 wrong usage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import midstream
from midstream.cli.commands import Failed, Quit, run_script
from midstream.cli.dialogue import Dialogue
from midstream.cli.formats import Format
from midstream.cli.screen import Screen
from midstream.cli.shell import Shell

INTERRUPTED = 130


_folder = click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
_master = click.option("--master", metavar="URL", help="Spark master, such as local[4] or spark://host:7077.")
_format = click.option(
    "--format",
    type=click.Choice(["table", "csv", "json", "arrow"]),
    default="table",
    show_default=True,
    help="How rows are printed; json is one object a line, arrow is the IPC stream format.",
)


class _Commands(click.Group):
    """Who names a folder and no command is told the commands that take one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            ctx.fail(
                f"No such command '{args[0]}'. 'midstream shell {args[0]}' opens the database in a folder, "
                f"'midstream sql {args[0]} SQL' runs statements in it, 'midstream run {args[0]} FILE' those of a file."
            )
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(midstream.__version__, prog_name="midstream")
def main() -> None:
    """Midstream: a streaming database in SQL on Apache Spark. DIR is the database's folder; a new one is made."""


@main.command()
@_folder
@_master
@_format
def shell(folder: str, master: str | None, format: Format) -> None:
    """An interactive shell; a script when its input is not a terminal."""
    with _dialogue(folder, master, format) as dialogue:
        if sys.stdin.isatty():
            dialogue.page = True
            dialogue.screen.say(f"Midstream {midstream.__version__}. \\? lists the commands, \\q leaves.", style="dim")
            Shell(dialogue, Path(folder).name.removesuffix(".db") or folder).run()
        else:
            run_script(dialogue, sys.stdin.read(), "<stdin>")


@main.command()
@_folder
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_master
@_format
def run(folder: str, file: Path, master: str | None, format: Format) -> None:
    """Runs the statements of FILE and stops at the first that fails."""
    text = file.read_text(encoding="utf-8")
    with _dialogue(folder, master, format) as dialogue:
        run_script(dialogue, text, str(file))


@main.command()
@_folder
@click.argument("text", metavar="SQL")
@_master
@_format
def sql(folder: str, text: str, master: str | None, format: Format) -> None:
    """Runs SQL (- reads it from standard input) and prints what it gives."""
    script = sys.stdin.read() if text == "-" else text
    with _dialogue(folder, master, format) as dialogue:
        run_script(dialogue, script)


@main.command()
def prepare() -> None:
    """Makes later starts faster: keeps Spark's classes in an archive, once for this machine (about 150 MB)."""
    from midstream.spark.class_archive import make_archive

    screen = Screen()
    try:
        screen.say("Starting Spark once to learn its classes; this takes about half a minute.", style="dim")
        screen.say(f"The archive is {make_archive()}. Databases now open in about two thirds of the time.")
    except midstream.Error as error:
        screen.show_error(error, "")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@contextmanager
def _dialogue(folder: str, master: str | None, format: Format) -> Iterator[Dialogue]:
    """Opens the database, turns what goes wrong into messages and exit codes, and closes it."""
    screen = Screen()
    try:
        with midstream.connect(folder, master=master) as db, db.session() as session:
            yield Dialogue(db, session, screen, format)
    except Failed as failed:
        screen.show_error(failed.error, failed.sql, failed.place)
        sys.exit(1)
    except midstream.Error as error:
        screen.show_error(error, "")
        sys.exit(1)
    except Quit:
        return
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
