//! Random regular expressions, most of them valid for RE2, some not.

use limpet_fuzz::Random;

pub(crate) struct Pieces {
    pub(crate) characters: &'static [&'static str],
    pub(crate) in_classes: &'static [&'static str],
    pub(crate) others: &'static [&'static str],
    pub(crate) counts: &'static [&'static str],
}

/// Pieces that RE2 reads alike in every encoding.
pub(crate) const ASCII: Pieces = Pieces {
    characters: &[
        "a", "b", "c", "K", "s", "/", "-", "_", "~", "&", ":", "1", "0", r"\.", r"\+", r"\-", r"\x41", r"\x{62}",
        r"\141", r"\Qa+b\E", r"\Q]1\E", "{", "}", "]", "a{", "{,3}", "b{x}", "1{01}", "c{ 2}", "a{1, 2}", "=", "!",
        ",", "@", r"\<", r"\>", r"\#", "#",
    ],
    in_classes: &[
        "a",
        "b",
        "X",
        "Z",
        "0",
        "/",
        ".",
        "&&",
        "~~",
        "--",
        "+--",
        "[",
        "[a-c",
        "-",
        r"\w-.",
        r"\d-",
        "[:digit:]-a",
        r"\<",
        "#",
        "_",
        r"\]",
        r"\-",
        r"\^",
        "a-c",
        "A-F",
        "0-9",
        "+-/",
        r"\d",
        r"\w",
        r"\D",
        r"\W",
        r"\S",
        "[:alpha:]",
        "[:^lower:]",
        "[:digit:]",
        "[:^punct:]",
        "[:xdigit:]",
        r"\p{Any}",
        r"\x41-\x{46}",
        r"\101-\103",
    ],
    others: &[
        ".",
        ".",
        r"\d",
        r"\w",
        r"\D",
        r"\W",
        r"\S",
        "^",
        "$",
        r"\A",
        r"\z",
        r"\b",
        r"\B",
        "(?m)^",
        "(?m:$)",
        "(?i)",
        "(?s)",
        "(?-i)",
        "(?i-s)",
        "(?s-m:.)",
        "(?U)",
        r"\C",
        "()",
        "(?:)",
        r"\P{Any}",
        r"\b{start}",
        r"\B{end}",
    ],
    counts: &[
        "*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,3}", "{2,}", "{0}", "{1}", "{2,3}?", "{,2}", "{02}",
    ],
};

/// Also pieces that only some RE2 accept or read alike, and large expressions.
pub(crate) const EVERYTHING: Pieces = Pieces {
    characters: &[
        "a",
        "é",
        "ß",
        "☺",
        "𝄞",
        "ſ",
        "K",
        " ",
        "\"",
        "%",
        "#",
        r"\x{e9}",
        r"\x{263A}",
        r"\0",
        r"\377",
        r"\a",
        r"\v",
        r"\n",
        r"\_",
        r"\é",
        r"\1",
        r"\Z",
        r"\u0041",
        r"\u{41}",
        r"\U00000041",
        r"\8",
        r"\18",
        r"\x{ 41}",
        "é-ü",
        "\u{7f}",
        "\u{0}",
    ],
    in_classes: &[
        "a-z",
        "é",
        "é-ü",
        r"\x{e0}-\x{ef}",
        r"\x{80}-\x{10FFFF}",
        "--",
        "z-a",
        r"\b",
        r"\Q",
        r"\C",
        "[:foo:]",
        "[:word:]",
        "[:",
        r"\pN",
        r"\PN",
        r"\p{Zs}",
        r"\p{^Zs}",
        r"\p{Letter}",
        r"\p{Greek}",
        r"\x00-\x1f",
        r"\s",
        "à-à",
        "-",
    ],
    others: &[
        r"\pL",
        r"\p{Letter}",
        r"\p{Pc}",
        r"\P{Zs}",
        "(?=a)",
        "(?x)",
        "(?u)",
        "(?R)",
        "(?ii)",
        "(?P<1>a)",
        "(?P<a.b>a)",
        r"(?\Qi\E)",
        r"\x\Q41\E",
        r"\0\Q\E1",
        "(",
        ")",
        "[",
        "[]",
        "[^]",
        "|",
        "*",
        "{2}",
        ".",
        "(?s:.)",
        "(?i:é)",
        r"\w",
        r"\W",
    ],
    counts: &[
        "*", "+", "?", "**", "{0,40}", "{70}", "{100,}", "{300}", "{1000}", "{1001}", "{2}{2}", "{3,2}", "{7,9}",
    ],
};

pub(crate) fn expression(random: &mut Random, pieces: &Pieces, depth: usize) -> String {
    let branches = random.some(1, 1 + random_branches(depth), |random| {
        random.some(0, 4, |random| repeated(random, pieces, depth)).concat()
    });
    branches.join("|")
}

fn random_branches(depth: usize) -> usize {
    depth.min(2)
}

fn repeated(random: &mut Random, pieces: &Pieces, depth: usize) -> String {
    let atom = atom(random, pieces, depth);
    let count = if random.below(3) == 0 {
        *random.pick(pieces.counts)
    } else {
        ""
    };
    atom + count
}

fn atom(random: &mut Random, pieces: &Pieces, depth: usize) -> String {
    match random.below(10) {
        0..5 => random
            .some(1, 3, |random| (*random.pick(pieces.characters)).to_owned())
            .concat(),
        5 | 6 => {
            let open = random.pick(&["[", "[", "[^", "[]", "[^-", "[]-", "[^]-", "[-", "[--"]);
            let items = random.some(1, 4, |random| (*random.pick(pieces.in_classes)).to_owned());
            format!("{open}{}]", items.concat())
        }
        7 => (*random.pick(pieces.others)).to_owned(),
        _ if depth == 0 => "a".to_owned(),
        _ => {
            let open = random.pick(&["(", "(?:", "(?i:", "(?s:", "(?P<n>", "(?<m>", "(?-i:", "(?U:", "(?m:"]);
            // RE2 wants the names of groups to differ.
            let open = open.replace('>', &format!("{}>", random.below(1_000_000_000)));
            format!("{open}{})", expression(random, pieces, depth - 1))
        }
    }
}
