"""The command line: `midstream shell`, `midstream run` and `midstream sql`.

A face: it reads text, hands it to the database statement by statement through the public API, and prints what
comes back. The path of a statement is

    main        the three commands, their options and exit codes
    script      text -> statements and backslash commands
    dialogue    one statement at a time against one session; knows about the open transaction
    commands    the backslash commands
    shell       the prompt, history and completion around a dialogue
    screen      rows, errors and progress for eyes
    formats     rows for programs: CSV, JSON lines, Arrow
"""

from midstream.cli.main import main

__all__ = ["main"]
