"""All statements: the first words say which reader takes over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from midstream.errors import SqlSyntaxError
from midstream.sql import statements as s
from midstream.sql.lexer import Token
from midstream.sql.manipulation import ManipulationReader

_SHOWN = (("continuous", "queries"), ("streams",), ("tables",), ("views",), ("status",), ("all",))
_REFUSED = {
    "grant": "There are no roles; whoever can open the folder can read it.",
    "revoke": "There are no roles; whoever can open the folder can read it.",
    "truncate": "For a table, use DELETE FROM; the rows of a stream go by themselves.",
    "vacuum": "Upkeep runs in the background.",
    "analyze": "Statistics are kept with the files.",
    "lock": "Readers never wait for writers; a write conflict ends in SQLSTATE 40001.",
    "savepoint": "A transaction ends with COMMIT or ROLLBACK.",
    "release": "A transaction ends with COMMIT or ROLLBACK.",
    "prepare": "Parameters are ? or $1 in any statement.",
    "execute": "Parameters are ? or $1 in any statement.",
    "deallocate": "Parameters are ? or $1 in any statement.",
    "declare": "Results are fetched as they come.",
    "fetch": "Results are fetched as they come.",
    "move": "Results are fetched as they come.",
    "close": "Results are fetched as they come.",
    "listen": "Use SUBSCRIBE TO name.",
    "unlisten": "Use SUBSCRIBE TO name.",
    "notify": "Use CREATE TRIGGER … NOTIFY channel.",
    "call": "There are no procedures.",
    "do": "There are no procedures.",
    "comment": None,
    "cluster": None,
    "reindex": None,
    "checkpoint": None,
    "discard": None,
    "import": None,
    "load": None,
    "reassign": None,
    "security": None,
    "use": "There is one database for each folder.",
    "pragma": "Settings are changed with SET.",
    "cache": None,
    "uncache": None,
    "optimize": "Upkeep runs in the background.",
    "replace": "Use CREATE OR REPLACE VIEW, or MERGE.",
}


class StatementReader(ManipulationReader):
    def statement(self) -> s.Statement:
        """The one statement that the tokens hold, to their end."""
        first = self.token
        statement = self._statement()
        self.expect_end()
        return self._located(statement, first)

    def _statement(self) -> s.Statement:
        token = self.token
        if token.kind == "operator" and token.value == "(" or self.sees_any("select", "with", "values", "table"):
            return self._select_statement()
        if token.kind != "word":
            self.fail_here()
        reader = self._readers().get(token.value)
        if reader is not None:
            return reader()
        if token.value in _REFUSED:
            self.refuse(token.value.upper(), hint=_REFUSED[token.value])
        self.fail_here()

    def _readers(self) -> dict[str, Callable[[], s.Statement]]:
        return {
            "insert": self.insert,
            "update": self.update,
            "delete": self.delete,
            "merge": self.merge,
            "copy": self.copy,
            "create": self.create,
            "alter": self.alter,
            "drop": self.drop,
            "constraint": self.constraint_on_table,
            "begin": self._begin,
            "start": self._begin,
            "commit": self._end,
            "end": self._end,
            "rollback": self._end,
            "abort": self._end,
            "explain": self._explain,
            "show": self._show,
            "describe": self._describe,
            "set": self._set,
            "reset": self._reset,
            "subscribe": self._subscribe,
            "refresh": self._refresh,
        }

    def _select_statement(self) -> s.Select:
        if self.sees("with") and self._with_leads_to_dml():
            self.refuse("WITH before INSERT, UPDATE, DELETE or MERGE", hint="Use subqueries in the statement itself.")
        return s.Select(self.sql(self.query))

    def _with_leads_to_dml(self) -> bool:
        depth = 0
        for before, token in pairwise(self.tokens[self.index :]):
            names_a_query = before.value in ("with", "recursive", ",")
            if token.kind == "operator":
                depth += {"(": 1, ")": -1}.get(token.value, 0)
            elif depth == 0 and token.kind == "word" and not names_a_query:
                if token.value in ("select", "values", "table"):
                    return False
                if token.value in ("insert", "delete", "merge", "update"):
                    return True
        return False

    # --- transactions ----------------------------------------------------------------------------

    def _begin(self) -> s.Begin:
        if self.advance().value == "start":
            self.expect("transaction")
        else:
            self.take_any("transaction", "work")
        while not self.at_end:
            self._transaction_mode()
            self.take(",")
        return s.Begin()

    def _transaction_mode(self) -> None:
        if self.take("read", "write") or self.take("not", "deferrable"):
            return
        if self.sees("isolation", "level"):
            level = " ".join(token.value for token in (self.peek(2), self.peek(3)))
            if level in ("repeatable read", "read committed", "read uncommitted"):
                self.index += 4
                return
            self.refuse(
                "ISOLATION LEVEL SERIALIZABLE",
                detail="A transaction reads one snapshot and conflicts on the rows that it writes.",
                hint="Use ISOLATION LEVEL REPEATABLE READ.",
            )
        if self.sees("read", "only") or self.sees("deferrable"):
            self.refuse(f"BEGIN {self.token.value.upper()} {self.peek().value.upper()}".rstrip())
        self.fail_here()

    def _end(self) -> s.Statement:
        word = self.advance().value
        self.take_any("transaction", "work")
        if self.sees("to") or self.sees("prepared"):
            self.refuse(f"{word.upper()} {self.token.value.upper()}", hint="There are no savepoints.")
        if self.take("and", "no", "chain"):
            pass
        elif self.sees("and", "chain"):
            self.refuse("AND CHAIN", hint="Begin the next transaction with BEGIN.")
        return s.Commit() if word in ("commit", "end") else s.Rollback()

    # --- seeing ----------------------------------------------------------------------------------

    def _explain(self) -> s.Explain:
        self.expect("explain")
        analyze = self.take("analyze")
        if not analyze and self.sees("(") and not self.sees_query():
            analyze = self._explain_options()
        if self.sees("view") and self.peek().value != "(":
            self.advance()
            return s.Explain(self.relation_name(), analyze)
        if self.take("continuous", "query") or self.take("materialized", "view"):
            return s.Explain(self.relation_name(), analyze)
        if self.sees("verbose"):
            self.refuse("EXPLAIN VERBOSE")
        if self.sees_any("explain", "begin", "start", "commit", "rollback", "set", "show"):
            self.fail_here()
        first = self.token
        target = self._statement()
        return s.Explain(self._located(target, first), analyze)

    def _explain_options(self) -> bool:
        analyze = False
        self.expect("(")
        while True:
            token = self.token
            if self.label() not in ("analyze", "analyse"):
                self.fail_at(token, SqlSyntaxError(f'unrecognized EXPLAIN option "{token.value}"'))
            analyze = True
            if self.take_any("false", "off"):
                analyze = False
            else:
                self.take_any("true", "on")
            if not self.take(","):
                break
        self.expect(")")
        return analyze

    def _located(self, statement: s.Statement, first: Token) -> s.Statement:
        text = self.source.text[first.start : self.tokens[self.index - 1].end]
        return replace(statement, text=text, start=self.position(first))

    def _show(self) -> s.Show:
        self.expect("show")
        for words in _SHOWN:
            if self.sees(*words) and self.peek(len(words)).kind == "end":
                self.index += len(words)
                return s.Show(" ".join(words))
        return s.Show(self._setting_name())

    def _setting_name(self) -> str:
        if self.take("time", "zone"):
            return "timezone"
        if self.take("transaction", "isolation", "level"):
            return "transaction_isolation"
        name = self.name()
        while self.take("."):
            name += "." + self.label()
        return name

    def _describe(self) -> s.Describe:
        self.expect("describe")
        if self.sees_any("table", "stream", "view") and self.peek().kind in ("word", "quoted"):
            self.advance()
        return s.Describe(self.relation_name())

    def _set(self) -> s.Set:
        self.expect("set")
        if self.sees("local"):
            self.refuse("SET LOCAL", hint="SET holds for the session; RESET takes it back.")
        if self.sees("session") and self.peek().kind in ("word", "quoted"):
            self.advance()
        if self.sees_any("role", "constraints", "transaction", "authorization", "characteristics"):
            self.refuse(f"SET {self.token.value.upper()}")
        is_zone = self.sees("time", "zone")
        name = self._setting_name()
        if not is_zone and not self.take("=") and not self.take("to"):
            self.fail_here()
        if self.take("default"):
            return s.Set(name, None)
        value = self.setting_value()
        if self.sees(","):
            self.refuse(f"a list as the value of {name}")
        return s.Set(name, value)

    def _reset(self) -> s.Set:
        self.expect("reset")
        if self.take("all"):
            return s.Set("all", None)
        return s.Set(self._setting_name(), None)

    # --- subscriptions and refreshes -------------------------------------------------------------

    def _subscribe(self) -> s.Subscribe:
        self.expect("subscribe", "to")
        name = self.relation_name()
        snapshot = False
        if self.sees("with"):
            token = self.peek(2)
            options = dict(self.options())
            snapshot = options.pop("snapshot", False) is True
            if options:
                self.fail_at(token, SqlSyntaxError(f'option "{next(iter(options))}" not recognized'))
        after = self.integer() if self.take("as", "of", "scn") else None
        return s.Subscribe(name, snapshot, after)

    def _refresh(self) -> s.RefreshView:
        self.expect("refresh", "materialized", "view")
        if self.sees("concurrently"):
            self.refuse("CONCURRENTLY", hint="Leave it out: readers never wait for a refresh.")
        name = self.relation_name()
        full = self.take("full")
        self.take("with", "data")
        return s.RefreshView(name, full)
