"""The keyed draw in SQL: key columns in, a uniform number out, bit for bit that of :mod:`evenodds.keys`.

Whole numbers stay below 2^63: products of 64 bits are put together of 32-bit halves.
"""

from __future__ import annotations

from evenodds.export.dialect import Dialect, number
from evenodds.export.query import Query
from evenodds.keys import COMBINE, MIXER, MULTIPLIERS, PRIME, coefficients

LONGEST = 512  # bytes of a text key
LOW = (1 << 32) - 1
_WORDS = ("v", "w")


def powers(dialect: Dialect) -> str:
    """Select what the bytes of a text of each size are multiplied by: size, v, w.

    Sizes of texts that are taken in half bytes are below 0. One row a size, since cutting a long list anew for
    every key takes eight times as long as a join.
    """
    weights = [[pow(m, place + 1, PRIME) for place in range(LONGEST)] for m in MULTIPLIERS]
    halves = [[part for weight in word for part in (weight * 16, weight)] for word in weights]
    given = ", ".join(
        f"{dialect.listed(values)} AS {name}"
        for name, values in zip(("bv", "bw", "hv", "hw"), (*weights, *halves), strict=True)
    )
    bytes_cut, halves_cut = (
        ", ".join(f"{dialect.cut(f'{kind}{word}', size)} AS {word}" for word in _WORDS)
        for kind, size in (("b", "greatest(n, 1)"), ("h", "2 * n"))
    )
    sizes = f"(SELECT {dialect.each('0', str(LONGEST))} AS n) AS sizes CROSS JOIN (SELECT {given}) AS given"
    return (
        f"SELECT n AS size, {bytes_cut} FROM {sizes}\n"
        f"UNION ALL SELECT -2 * n, {halves_cut} FROM {sizes} WHERE n > 0"
    )


def add_draw(query: Query, dialect: Dialect, keys: list[str], table: str, salt: int) -> None:
    """Put the column `_draw` in place of the key columns."""
    _add_words(query, dialect, keys, table)

    def low(value: str) -> str:
        return f"({value} & {LOW})"

    def high(value: str) -> str:
        return dialect.shifted(value, 32)

    a, b, c = (int(part) for part in coefficients(salt))
    (ah, al), (bh, bl), (ch, cl), (dh, dl) = ((part >> 32, part & LOW) for part in (a, b, c, MIXER))
    # x = v * A + w * B + C mod 2^64, as two halves
    query.step(
        {"_p": f"_v * {al}", "_q": f"_w * {bl}", "_h": f"{low(f'(_v * {ah})')} + {low(f'(_w * {bh})')}"},
        drop=["_v", "_w"],
    )
    query.step(
        {"_l": f"{low('_p')} + {low('_q')} + {cl}", "_h": f"_h + {high('_p')} + {high('_q')} + {ch}"},
        drop=["_p", "_q"],
    )
    query.step({"_l": low("_l"), "_h": low(f"(_h + {high('_l')})")})
    # x = x xor (x >> 32), then x = x * D mod 2^64
    query.step({"_l": dialect.xor("_l", "_h")})
    query.step({"_p": f"_l * {dl}", "_h": f"{low(f'(_l * {dh})')} + {low(f'(_h * {dl})')}"}, drop=["_l"])
    query.step({"_h": low(f"(_h + {high('_p')})"), "_l": dialect.shifted(low("_p"), 28)}, drop=["_p"])
    query.step({"_draw": f"CAST(_h * 16 + _l AS DOUBLE) * {number(2.0**-36)}"}, drop=["_h", "_l"])


def _add_words(query: Query, dialect: Dialect, keys: list[str], table: str) -> None:
    """Put the two words `_v` and `_w` in place of the key columns."""
    parts: dict[str, str] = {}
    for place, key in enumerate(keys):
        whole, text = dialect.is_whole(key), dialect.is_text(key)
        refused = dialect.error(
            f"concat('a key of type ', typeof({key}), ' cannot repeat a draw, expected text or whole numbers')"
        )
        printed = f"CAST({key} AS {dialect.text_type})"
        parts[f"_n{place}"] = (
            f"CASE WHEN {whole} THEN {dialect.whole(key)} WHEN {text} THEN NULL ELSE {refused} END"
        )
        long = dialect.error(f"'a key is longer than {LONGEST} bytes'")
        parts[f"_t{place}"] = (
            f"CASE WHEN {whole} THEN NULL WHEN {dialect.size(printed)} > {LONGEST} THEN {long} ELSE {printed} END"
        )
    query.step(parts, drop=keys)
    texts = [f"_t{place}" for place in range(len(keys))]
    sizes = (
        f"CASE WHEN {dialect.is_ascii(text)} THEN 1 ELSE -2 END * {dialect.size(text)}" for text in texts
    )
    query.step(
        {f"_z{place}": f"CAST({size} AS BIGINT)" for place, size in enumerate(sizes)}
        | {f"_c{place}": dialect.letters(text) for place, text in enumerate(texts)},
        drop=texts,
    )
    words = {}
    for place in range(len(keys)):
        halves = (f"_n{place} & {LOW}", f"{dialect.shifted(f'_n{place}', 32)} & {LOW}")
        for word, half in zip(_WORDS, halves, strict=True):
            summed = f"{dialect.weighed(f'_c{place}', f'p{place}.{word}')} & {LOW}"
            words[f"_{word}{place}"] = f"CASE WHEN _n{place} IS NOT NULL THEN {half} ELSE {summed} END"
    joined = {f"p{place}": (table, f"p{place}.size = _z{place}") for place in range(len(keys))}
    query.step(words, join=joined, drop=[f"_{part}{place}" for place in range(len(keys)) for part in "nzc"])
    query.step({"_v": "_v0", "_w": "_w0"}, drop=["_v0", "_w0"])
    for place in range(1, len(keys)):
        first, second = f"_v{place}", f"_w{place}"
        query.step(
            {"_v": f"(_v * {COMBINE} + {first}) & {LOW}", "_w": f"(_w * {COMBINE} + {second} + _v) & {LOW}"},
            drop=[first, second],
        )
