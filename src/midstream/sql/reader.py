"""The base of the grammar: looks at tokens one after the other and says what was expected.

Nothing is read twice and nothing is skipped, so a text that parses has been understood to its last token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from sqlglot import exp

from midstream.errors import Error, Position, SqlSyntaxError, UndefinedName, Unsupported
from midstream.sql.keywords import NO_BARE_NAME, RESERVED
from midstream.sql.lexer import Source, Token
from midstream.sql.positions import mark
from midstream.sql.statements import Sql
from midstream.sql.text import canonical_text

Item = TypeVar("Item")
Node = TypeVar("Node", bound=exp.Expression)

MAX_NESTING = 100
"""How deep parentheses, calls and subqueries may nest; binding and rendering recurse over the same tree."""


def too_complex() -> Error:
    return SqlSyntaxError(
        "statement is nested too deeply",
        detail=f"Parentheses, calls, operators and subqueries nest at most {MAX_NESTING} levels deep.",
        hint="Name parts of the query in a WITH clause or a view.",
        sqlstate="54001",
    )


class TokenReader:
    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.index = 0
        self._nesting = 0

    # --- looking ---------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def sees(self, *words: str) -> bool:
        """Whether the next tokens are these words or marks."""
        return all(_is(self.peek(i), word) for i, word in enumerate(words))

    def sees_any(self, *words: str) -> bool:
        return any(_is(self.token, word) for word in words)

    @property
    def at_end(self) -> bool:
        return self.token.kind == "end"

    def position(self, token: Token | None = None) -> Position:
        return self.source.position((token or self.token).start)

    # --- taking ----------------------------------------------------------------------------------

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.index += 1
        return token

    def take(self, *words: str) -> bool:
        """Takes these words if they are next."""
        if not self.sees(*words):
            return False
        self.index += len(words)
        return True

    def take_any(self, *words: str) -> str | None:
        return next((word for word in words if self.take(word)), None)

    def expect(self, *words: str) -> Token:
        """Takes these words, or says where the text goes wrong; gives the first."""
        first = self.token
        for word in words:
            if not self.take(word):
                self.fail_here()
        return first

    def expect_end(self) -> None:
        if not self.at_end:
            self.fail_here()

    def list_of(self, read: Callable[[], Item]) -> list[Item]:
        items = [read()]
        while self.take(","):
            items.append(read())
        return items

    def in_parentheses(self, read: Callable[[], Item]) -> list[Item]:
        self.expect("(")
        items = self.list_of(read)
        self.expect(")")
        return items

    def string(self) -> str:
        if self.token.kind != "string":
            self.fail_here()
        return self.advance().value

    def integer(self) -> int:
        if self.token.kind != "number" or not self.token.value.isdigit() or len(self.token.value) > 18:
            self.fail_here()
        return int(self.advance().value)

    # --- names -----------------------------------------------------------------------------------

    def sees_name(self) -> bool:
        return self.token.kind == "quoted" or (self.token.kind == "word" and self.token.value not in NO_BARE_NAME)

    def name(self) -> str:
        if not self.sees_name():
            self.fail_here()
        return self.advance().value

    def label(self) -> str:
        """A name behind AS or a dot, where every word will do."""
        if self.token.kind not in ("word", "quoted"):
            self.fail_here()
        return self.advance().value

    def function_name(self) -> Token:
        token = self.token
        if token.kind != "quoted" and (token.kind != "word" or token.value in RESERVED):
            self.fail_here()
        return self.advance()

    def relation_name(self) -> str:
        """A relation's name: `t`, `public.t`."""
        return self.relation_identifier().name

    def relation_identifier(self) -> exp.Identifier:
        first = self.token
        identifier = self.identifier()
        while self.take("."):
            if identifier.name != "public":
                self.fail_at(
                    first,
                    UndefinedName(
                        f'schema "{identifier.name}" does not exist',
                        detail='The only schema is "public".',
                        sqlstate="3F000",
                    ),
                )
            identifier = self.identifier()
        return identifier

    def identifier(self) -> exp.Identifier:
        token = self.token
        return self.placed(exp.Identifier(this=self.name(), quoted=token.kind == "quoted"), token)

    def label_identifier(self) -> exp.Identifier:
        token = self.token
        return self.placed(exp.Identifier(this=self.label(), quoted=token.kind == "quoted"), token)

    def column_names(self) -> tuple[str, ...]:
        return tuple(self.in_parentheses(self.name))

    # --- making ----------------------------------------------------------------------------------

    def placed(self, node: Node, token: Token) -> Node:
        mark(node, self.position(token))
        return node

    def sql(self, read: Callable[[], exp.Expression]) -> Sql:
        """Reads a tree and keeps it with its canonical text."""
        first = self.index
        tree = read()
        return Sql(tree, canonical_text(self.tokens[first : self.index]))

    def enter(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self.fail_here(too_complex())

    def leave(self) -> None:
        self._nesting -= 1

    # --- failing ---------------------------------------------------------------------------------

    def fail_here(self, error: Error | None = None, *, hint: str | None = None) -> NoReturn:
        self.fail_at(self.token, error, hint=hint)

    def fail_at(self, token: Token, error: Error | None = None, *, hint: str | None = None) -> NoReturn:
        """Without an error of its own, the text stops making sense there; the hint says what would."""
        if error is not None:
            raise self.source.fail(error, token.start)
        end = token.start if token.kind == "end" and self.source.text[token.start : token.end] != ";" else token.end
        raise self.source.syntax_error(token.start, end, hint)

    def refuse(self, what: str, *, hint: str | None = None, detail: str | None = None) -> NoReturn:
        self.fail_here(Unsupported(f"{what} is not supported", hint=hint, detail=detail))


def _is(token: Token, word: str) -> bool:
    return token.value == word and token.kind in ("word", "operator")
