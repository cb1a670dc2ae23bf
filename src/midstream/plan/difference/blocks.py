"""The change of one block, SELECT … FROM … JOIN … WHERE …, that neither groups nor sorts.

What a block is made of comes in an order c1, c2, …, cn. Its change is the sum over each ci that changed, where what
comes before ci is as it is now and what comes after as it was (Q13 of the paper):

    pst(c1) … pst(ci-1)  dlt(ci)  pre(ci+1) … pre(cn)

Items of FROM that are joined by inner joins come first: there dlt(ci) are rows with weights. Then what a row depends on
without being made of it: the right side of a LEFT JOIN, and queries inside expressions. For these, rows whose key the
change touches are computed twice, with ci after and before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from midstream.plan.context import COMMIT, WEIGHT
from midstream.plan.cut.build import NOT_DISTINCT, both, call, derived, number, output, plain_column
from midstream.plan.cut.streams import items_of
from midstream.plan.difference import foreign_keys
from midstream.plan.difference.dependents import Dependent, dependents_of, drop_watched
from midstream.plan.difference.images import Image, commit_of, weight_of
from midstream.plan.difference.keys import add_where
from midstream.plan.difference.outer_joins import parts_of
from midstream.plan.difference.steps import NotSeparable, Step, Unit
from midstream.plan.typing.nodes import typed
from midstream.types import BOOLEAN

if TYPE_CHECKING:
    from midstream.plan.difference.terms import Terms

Node = exp.Expression
_TAG = "component"


@dataclass(frozen=True)
class _Component:
    """Something that a block is made of and that changed: an item of FROM, or what rows depend on."""

    tag: int
    name: str
    rows: int
    item: Node | None = None
    dependent: Dependent | None = None


def terms_of(terms: Terms, query: exp.Select) -> list[exp.Select]:
    parts = parts_of(query)
    if parts is not None:
        return [term for part in parts for term in terms.of_query(part)]
    reason = _has_no_rule(terms, query)
    if reason is not None:
        return terms.recomputed(query, reason)
    components = _components(terms, query)
    found: list[exp.Select] = []
    for place in range(len(components)):
        found += _Term(terms, query, components, place).made()
    return found


def _has_no_rule(terms: Terms, query: exp.Select) -> str | None:
    for item in items_of(query):
        if not terms.images.reads_change(item):
            continue
        if isinstance(item, exp.Lateral):
            return "LATERAL over a table that changed"
        if isinstance(item, exp.Table) and terms.images.table_of(item) is None:
            return "a function in FROM reads a table that changed"
        if isinstance(item, exp.Paren) or item.args.get("joins"):
            join = item.parent
            if not (isinstance(join, exp.Join) and join.args.get("side") == "LEFT"):
                return "a join in parentheses"
    return None


def _components(terms: Terms, query: exp.Select) -> list[_Component]:
    images = terms.images
    outer = {id(join.this) for join in query.args.get("joins") or [] if join.args.get("side")}
    items = [item for item in items_of(query) if id(item) not in outer and images.reads_change(item)]
    inner: list[_Component] = []
    for item in items:
        inner.append(_Component(_tag([item], len(inner)), _name(terms, [item]), _rows(terms, item), item))
    inner = (
        foreign_keys.in_order(terms, query, inner)
        if terms.images.same_constraints
        else sorted(inner, key=lambda c: -c.rows)
    )
    dependents = [
        _Component(_tag(found.nodes, len(inner) + place), _name(terms, found.nodes), 0, dependent=found)
        for place, found in enumerate(dependents_of(terms.images, query))
    ]
    return [*inner, *dependents]


def _tag(nodes: Sequence[Node], tag: int) -> int:
    for node in nodes:
        node.meta[_TAG] = tag
    return tag


def _rows(terms: Terms, item: Node) -> int:
    return max(
        (change.rows for table in item.find_all(exp.Table) if (change := terms.images.change_of(table))), default=0
    )


def _name(terms: Terms, nodes: Sequence[Node]) -> str:
    tables = [terms.images.table_of(table) for node in nodes for table in node.find_all(exp.Table)]
    return ", ".join(dict.fromkeys(table.name for table in tables if table is not None))


@dataclass(frozen=True)
class _Term:
    """The term of the component at one place of the order."""

    terms: Terms
    query: exp.Select
    components: Sequence[_Component]
    place: int

    @property
    def component(self) -> _Component:
        return self.components[self.place]

    def made(self) -> list[exp.Select]:
        if self.component.dependent is not None:
            return self._toggled(self.component.dependent)
        proof = foreign_keys.proof_of_empty(self.terms, self.query, self.components, self.place)
        if proof is not None:
            self.terms.note(Step("empty", self.text(), proof))
            assert self.component.item is not None
            self.terms.images.watch(self.component.item)
            return []
        return self._with_change()

    def text(self) -> str:
        def part(place: int, component: _Component) -> str:
            if place == self.place:
                return f"dlt({component.name})"
            return f"{'pst' if place < self.place else 'pre'}({component.name})"

        changed = [part(place, component) for place, component in enumerate(self.components)]
        others = [
            f"{_name(self.terms, [item])}"
            for item in items_of(self.query)
            if item.meta.get(_TAG) is None and _name(self.terms, [item])
        ]
        return " >< ".join([*changed, *others])

    def _version(self, images: dict[int, Image]) -> exp.Select:
        """The block with each component as it was or is."""
        copy = self.terms.images.fresh(self.query)
        assert isinstance(copy, exp.Select)
        drop_watched(copy)
        for node in [found for found in copy.walk() if isinstance(found, Node) and _TAG in found.meta]:
            if images[node.meta[_TAG]] is Image.PRE:
                self.terms.images.put_before(node)
        return copy

    def _images(self, own: Image) -> dict[int, Image]:
        found = {component.tag: Image.PST for component in self.components[: self.place]}
        found |= {component.tag: Image.PRE for component in self.components[self.place + 1 :]}
        return found | {self.component.tag: own}

    # --- rows with weights -----------------------------------------------------------------------

    def _with_change(self) -> list[exp.Select]:
        if self.terms.by_commit and not foreign_keys.is_separable(self.terms, self.query, self.components, self.place):
            raise NotSeparable
        units = foreign_keys.unit_of(self.terms, self.query, self.components, self.place)
        if units is None:
            self.terms.note(Step("term", self.text()))
            found = self._changed()
            return [found] if found is not None else []
        parent, fk, pk = units
        self.terms.note(
            Step("term", f"{self.text()}, with dlt({parent.name}) for rows that meet it", "units of a foreign key")
        )
        near = self._changed()
        assert near is not None
        self._meet_change(near, parent)
        if self.terms.uses_units == "near":
            self._note_unit(parent, fk, pk)
            return [near]
        if self._only_went():
            # What was there before is what is there now, and what went (Q24 of the paper).
            far = self._changed(as_now=parent.tag)
            assert far is not None
            return [near, far]
        far = self._changed()
        assert far is not None
        self._miss_change(far, parent, fk, pk)
        return [near, far]

    def _only_went(self) -> bool:
        change = self.terms.images.change_of(self.component.item) if self.component.item is not None else None
        return change is not None and change.kind == "delete"

    def _note_unit(self, parent: _Component, fk: tuple[str, ...], pk: tuple[str, ...]) -> None:
        assert isinstance(self.component.item, exp.Table) and isinstance(parent.item, exp.Table)
        images = self.terms.images
        child, referred = images.table_of(self.component.item), images.table_of(parent.item)
        assert child is not None and referred is not None
        self.terms.units.append(Unit(child, fk, referred, pk, self._only_went()))

    def _changed(self, as_now: int | None = None) -> exp.Select | None:
        """The block over what changed of one item; `as_now`: the tag of another that is not as it was."""
        copy = self._version(self._images(Image.PST) | ({as_now: Image.PST} if as_now is not None else {}))
        item = next(item for item in items_of(copy) if item.meta.get(_TAG) == self.component.tag)
        if isinstance(item, exp.Table):
            self.terms.images.watch(item)
            weight = self.terms.images.put_change(item)
            commit = commit_of(item.alias)
        else:
            changes = self.terms.of_query(item.this)
            if not changes:
                return None
            from midstream.plan.difference.terms import united

            item.set("this", united(changes))
            weight, commit = weight_of(item.alias), commit_of(item.alias)
        marks = [output(commit, COMMIT)] if self.terms.by_commit else []
        copy.set("expressions", [*copy.expressions, *marks, output(weight, WEIGHT)])
        return copy

    def _meet_change(self, term: exp.Select, parent: _Component) -> None:
        """Rows that refer to a row of the parent that changed are joined with these alone,"""
        referred = _items(term)[parent.tag]
        assert isinstance(referred, exp.Table)
        self.terms.images.put_change(referred)

    def _miss_change(self, term: exp.Select, parent: _Component, fk: Sequence[str], pk: Sequence[str]) -> None:
        """and the others with what is there."""
        items = _items(term)
        child, referred = items[self.component.tag], items[parent.tag]
        key = self.terms.images.binding.fresh_alias("new")
        new = exp.Table(this=referred.this.copy(), alias=exp.TableAlias(this=exp.to_identifier(key, quoted=True)))
        self.terms.images.put_change(new)
        types = foreign_keys.types_of(self.terms, self.query, self.component, fk)
        matches = [
            call(NOT_DISTINCT, plain_column(key, theirs, kind), plain_column(child.alias, ours, kind))
            for ours, theirs, kind in zip(fk, pk, types, strict=True)
        ]
        inner = exp.Select(expressions=[output(number(1), "one")])
        inner.set("from_", exp.From(this=new))
        inner.set("where", exp.Where(this=both(matches)))
        absent = typed(exp.Not(this=typed(exp.Exists(this=inner), BOOLEAN)), BOOLEAN)
        add_where(term, [absent])

    # --- rows that depend on the change -----------------------------------------------------------

    def _toggled(self, dependent: Dependent) -> list[exp.Select]:
        """Rows that a change of what they depend on can affect, with it after and before."""
        terms = self.terms
        keys = terms.keys_touched([dependent.change]) if dependent.change is not None else None
        if dependent.change is not None and keys is None:
            return []
        versions = []
        for own, weight in ((Image.PST, 1), (Image.PRE, -1)):
            version = self._version(self._images(own))
            if keys is not None:
                self._restrict(version, dependent, keys)
            version.set("expressions", [*version.expressions, output(number(weight), WEIGHT)])
            versions.append(version)
        if keys is None:
            for node in dependent.nodes:
                terms.images.watch(node)
            terms.note(Step("recompute", self.text(), dependent.reason))
        else:
            terms.note(Step("keyed", self.text(), f"{dependent.word}: rows that a change meets, after less before"))
        return versions

    def _restrict(self, version: exp.Select, dependent: Dependent, keys: exp.Select) -> None:
        outside = [_at_copy(node, self.query, version) for node in dependent.outside]
        if not dependent.three_valued:
            self.terms.restrict(version, keys, outside, nulls=False)
            return
        # x NOT IN (…) is NULL for a NULL on either side, so such rows are affected by any change.
        alias = self.terms.images.binding.fresh_alias("k")
        [value] = outside
        from midstream.plan.typing.nodes import type_of

        equal = call("=(comparable, comparable)", plain_column(alias, "k0", type_of(value)), value)
        maybe = call("is distinct from(comparable, comparable)", equal, typed(exp.false(), BOOLEAN))
        inner = exp.Select(expressions=[output(number(1), "one")])
        inner.set("from_", exp.From(this=derived(self.terms.images.fresh(keys), alias)))
        inner.set("where", exp.Where(this=maybe))
        add_where(version, [typed(exp.Exists(this=inner), BOOLEAN)])


def _items(term: exp.Select) -> dict[int, Node]:
    """The items of a term that changed, by their tags."""
    return {item.meta[_TAG]: item for item in items_of(term) if _TAG in item.meta}


def _at_copy(node: Node, query: exp.Select, copy: exp.Select) -> Node:
    """An expression over the sources of a query, over those of its copy."""
    renamed = {one.alias: other.alias for one, other in zip(items_of(query), items_of(copy), strict=True) if one.alias}
    found = node.copy()
    for column in list(found.find_all(exp.Column)):
        column.set("table", exp.to_identifier(renamed.get(column.table, column.table), quoted=True))
    return found
