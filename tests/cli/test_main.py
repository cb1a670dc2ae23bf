"""`midstream sql`, `run` and `shell` with its input from a file: what they print, and their exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import midstream
from midstream.cli import main

pytestmark = pytest.mark.spark
Run = Callable[..., Result]

PARTS = "CREATE TABLE part (id int PRIMARY KEY, name text, price numeric(8,2));"
ROWS = "INSERT INTO part VALUES (1, 'door', 12.5), (2, NULL, NULL), (3, '', -1);"


@pytest.fixture
def run(tmp_path: Path, database: midstream.Database) -> Run:
    """Each call opens a database and closes it; the shared one keeps Spark alive meanwhile."""

    def invoke(command: str, *arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(main, [command, str(tmp_path / "shop.db"), *arguments], input=input)

    return invoke


def test_sql_prints_statuses_and_rows(run: Run) -> None:
    result = run("sql", f"{PARTS} {ROWS} SELECT * FROM part ORDER BY id")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "CREATE TABLE",
        "INSERT 0 3",
        "id | name | price",
        "---+------+------",
        " 1 | door | 12.50",
        " 2 |      |",
        " 3 |      | -1.00",
        "(3 rows)",
    ]


def test_csv_has_rows_on_standard_output_and_statuses_beside(run: Run) -> None:
    result = run("sql", f"{PARTS} {ROWS} SELECT * FROM part ORDER BY id", "--format", "csv")
    assert result.stdout == 'id,name,price\n1,door,12.50\n2,,\n3,"",-1.00\n'
    assert "INSERT 0 3" in result.stderr


def test_csv_is_what_copy_reads_back(run: Run, tmp_path: Path) -> None:
    first = run("sql", f"{PARTS} {ROWS} SELECT * FROM part ORDER BY id", "--format", "csv").stdout
    (tmp_path / "part.csv").write_text(first)
    copy = f"DELETE FROM part; COPY part FROM '{tmp_path}/part.csv' CSV HEADER; SELECT * FROM part ORDER BY id"
    assert run("sql", copy, "--format", "csv").stdout == first


def test_json_is_one_object_a_line(run: Run) -> None:
    result = run("sql", f"{PARTS} {ROWS} SELECT * FROM part ORDER BY id", "--format", "json")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"id": 1, "name": "door", "price": 12.5},
        {"id": 2, "name": None, "price": None},
        {"id": 3, "name": "", "price": -1.0},
    ]


def test_arrow_is_an_ipc_stream(run: Run) -> None:
    result = run("sql", f"{PARTS} {ROWS} SELECT id, name FROM part ORDER BY id", "--format", "arrow")
    table = pa.ipc.open_stream(io.BytesIO(result.stdout_bytes)).read_all()
    assert table.to_pydict() == {"id": [1, 2, 3], "name": ["door", None, ""]}


def test_an_error_says_where_and_exits_with_1(run: Run) -> None:
    result = run("sql", f"{PARTS} SELECT nme FROM part")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[:3] == [
        'ERROR:  column "nme" does not exist',
        "LINE 1: SELECT nme FROM part",
        "               ^",
    ]


def test_nothing_runs_after_an_error(run: Run) -> None:
    assert run("sql", f"{PARTS} SELECT 1 / 0 AS x; DROP TABLE part").exit_code == 1
    assert run("sql", "SELECT count(*) AS n FROM part").exit_code == 0


def test_run_names_file_and_line_of_the_error(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "load.sql"
    script.write_text(f"{PARTS}\n-- the next one is wrong\nSELECT id\nFROM prat;\nDROP TABLE part;\n")
    result = run("run", str(script))
    assert result.exit_code == 1
    assert result.stderr.startswith(f'{script}:4: ERROR:  relation "prat" does not exist')


def test_run_of_a_good_file_exits_with_0(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "load.sql"
    script.write_text(f"{PARTS}\n{ROWS}\n\\d part\nSELECT count(*) AS n FROM part")
    result = run("run", str(script))
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("n\n-\n3\n(1 row)\n")


def test_shell_reads_a_script_from_a_pipe(run: Run) -> None:
    result = run("shell", input=f"{PARTS}\n{ROWS}\nSELECT name FROM part\nWHERE id = 1;\n")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-4:] == ["name", "----", "door", "(1 row)"]


def test_a_transaction_left_open_is_rolled_back(run: Run) -> None:
    run("sql", f"{PARTS} BEGIN; {ROWS}")
    assert run("sql", "SELECT count(*) AS n FROM part", "--format", "csv").stdout == "n\n0\n"


def test_sql_reads_standard_input_for_a_dash(run: Run) -> None:
    assert run("sql", "-", "--format", "csv", input="SELECT 1 AS one").stdout == "one\n1\n"


@pytest.mark.parametrize(
    "arguments", [("sql",), ("run", "x.db", "missing.sql"), ("sql", "x.db", "SELECT 1", "--format", "xml")]
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_a_folder_without_a_command_is_told_the_commands() -> None:
    result = CliRunner().invoke(main, ["shop.db", "-c", "SELECT 1"])
    assert result.exit_code == 2
    assert "'midstream shell shop.db' opens the database" in result.output


def test_lists_and_expanded_rows_by_the_names_that_psql_has(run: Run) -> None:
    script = (
        f"{PARTS}\n{ROWS}\n\\dt\n\\x\nSELECT id, name FROM part WHERE id < 3 ORDER BY id;\n\\x off\nSELECT 1 AS n;\n"
    )
    result = run("shell", input=script)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[2].startswith("name | columns | rows") and lines[4].startswith("part")
    assert lines[6:] == [
        "Expanded display is on.",
        "-[ 1 ]----------",
        "id   | 1",
        "name | door",
        "-[ 2 ]----------",
        "id   | 2",
        "name |",
        "(2 rows)",
        "Expanded display is off.",
        "n",
        "-",
        "1",
        "(1 row)",
    ]
    assert run("shell", input="\\timing perhaps\n").exit_code == 1
    assert run("shell", input="\\ds\n\\dv\n\\dq\n").exit_code == 0


def test_version() -> None:
    assert CliRunner().invoke(main, ["--version"]).output.startswith("midstream, version ")
