"""sqlglot's many classes of function nodes, back to a name and arguments as PostgreSQL writes them.

Substring(this=a, start=2)  ->  ("substr", [a, 2])
"""

from __future__ import annotations

from sqlglot import exp

from midstream.plan.functions import FUNCTIONS_BY_NAME

Arguments = list[exp.Expression]

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "is not distinct from",
    exp.NullSafeNEQ: "is distinct from",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.SimilarTo: "similar to",
    exp.RegexpLike: "~",
    exp.RegexpILike: "~*",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
    exp.IntDiv: "div",
}
_NAMES: dict[type[exp.Expression], str] = {
    exp.Pow: "power",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Rand: "random",
    exp.StrPosition: "strpos",
    exp.ArraySize: "array_length",
    exp.ArrayConcat: "array_cat",
    exp.Hex: "to_hex",
    exp.GroupConcat: "string_agg",
    exp.ArgMin: "min_by",
    exp.ArgMax: "max_by",
    exp.LowerHex: "to_hex",
    exp.ApproxDistinct: "approx_count_distinct",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.JSONArray: "json_array",
    exp.JSONArrayAgg: "json_agg",
    exp.JSONObject: "json_object",
    exp.JSONObjectAgg: "json_object_agg",
    exp.JSONBObjectAgg: "jsonb_object_agg",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Substring: "substr",
    exp.SHA2Digest: "sha256",
    exp.UnixToTime: "to_timestamp",
    exp.StrToDate: "to_date",
    exp.StrToTime: "to_timestamp",
    exp.TimeToStr: "to_char",
    exp.MD5: "md5",
    exp.ToChar: "to_char",
    exp.Ceil: "ceil",
}
_KEPT_ARGUMENTS: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Initcap: ("this",),
    exp.SHA2Digest: ("this",),
    exp.StrPosition: ("this", "substr"),
    exp.Chr: ("expressions",),
    exp.ArrayPrepend: ("expression", "this"),
    exp.RegexpLike: ("this", "expression"),
    exp.RegexpReplace: ("this", "expression", "replacement", "modifiers"),
}


_KEPT_NAMES = frozenset(
    """year quarter month day hour minute second last_day array_contains count_if sha1 sha2 any_value overlay
    if""".split()
)
"""Functions whose sqlglot nodes are named otherwise, and have their arguments in the order of writing."""


def canonical_call(node: exp.Expression) -> tuple[str, Arguments] | None:
    """Name and arguments of a function or operator; None: the node is neither."""
    kind = type(node)
    if kind in _OPERATORS:
        return _OPERATORS[kind], [node.this, node.expression]
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower(), list(node.expressions)
    if isinstance(node, exp.Trim):
        return _trim(node)
    if isinstance(node, exp.Pad):
        return _pad(node)
    if isinstance(node, exp.Extract):
        return f"extract {node.this.name.lower()}", [node.expression]
    if isinstance(node, exp.TimestampTrunc):
        return f"date_trunc {node.args['unit'].name.lower()}", [node.this]
    if isinstance(node, exp.BitwiseNot):
        return "~", [node.this]
    if isinstance(node, exp.Neg):
        return "-", [node.this]
    if isinstance(node, exp.AtTimeZone):
        return "timezone", [node.args["zone"], node.this]
    if isinstance(node, (exp.JSONExtract, exp.JSONExtractScalar)):
        return _json_path(node)
    if isinstance(node, exp.Func):
        written = node.meta.get("name")
        if isinstance(written, str) and written.lower() in _KEPT_NAMES:
            return written.lower(), arguments_of(node)
        name = _NAMES.get(kind) or node.sql_name().lower()
        if isinstance(written, str) and name not in FUNCTIONS_BY_NAME:
            name = written.lower()
        return name, arguments_of(node, _KEPT_ARGUMENTS.get(kind))
    return None


def arguments_of(node: exp.Expression, keys: tuple[str, ...] | None = None) -> Arguments:
    found: Arguments = []
    for key in keys or tuple(node.arg_types):
        value = node.args.get(key)
        if isinstance(value, exp.Expression):
            found.append(value)
        elif isinstance(value, list):
            found += [item for item in value if isinstance(item, exp.Expression)]
    return found


def _trim(node: exp.Trim) -> tuple[str, Arguments]:
    side = str(node.args.get("position") or "BOTH").upper()
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim")
    return name, [node.this, *([node.expression] if node.args.get("expression") else [])]


def _pad(node: exp.Pad) -> tuple[str, Arguments]:
    fill = node.args.get("fill_pattern")
    return "lpad" if node.args.get("is_left") else "rpad", [node.this, node.expression, *([fill] if fill else [])]


def _json_path(node: exp.Expression) -> tuple[str, Arguments]:
    name = "->>" if isinstance(node, exp.JSONExtractScalar) else "->"
    path = node.expression
    if not isinstance(path, exp.JSONPath):
        return name, [node.this, path]
    value: exp.Expression = node.this
    steps = [part for part in path.expressions if not isinstance(part, exp.JSONPathRoot)]
    for index, step in enumerate(steps):
        key = (
            exp.Literal.number(step.this) if isinstance(step, exp.JSONPathSubscript) else exp.Literal.string(step.name)
        )
        if index == len(steps) - 1:
            return name, [value, key]
        value = exp.Anonymous(this="->", expressions=[value, key])
    return name, [value, path]
