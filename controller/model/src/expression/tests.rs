use proptest::prelude::*;

use super::Expression;
use super::cache::TranslationCache;

fn printed(text: &str) -> String {
    match Expression::parse(text) {
        Ok(expression) => expression.as_str().to_owned(),
        Err(message) => format!("refused: {message}"),
    }
}

/// Rules without a name are called by a hash of the printed text.
#[test]
fn the_translation_is_frozen() {
    for (text, expected) in [
        ("/shop/.*", "/shop/.*"),
        ("/items/[0-9]+", "/items/[0-9]+"),
        ("/[^/]+/a{2,3}b{4,}c{5}", "/[^/]+/a{2,3}b{4,}c{5}"),
        ("/a|/b", "/a|/b"),
        (r"\d{3}-\w+\s", r"[0-9]{3}-[0-9A-Z_a-z]+[\x{09}\x{0A}\x{0C}\x{0D} ]"),
        (r"\D\W\S", r"[^0-9][^0-9A-Z_a-z][^\x{09}\x{0A}\x{0C}\x{0D} ]"),
        ("[[:alpha:]_]", "[A-Z_a-z]"),
        ("[[:^digit:]]", "[^0-9]"),
        ("[^[:^space:]]", r"[\x{09}-\x{0D} ]"),
        (r"\p{ASCII}\p{Any}\P{Any}", r"[\x{00}-\x{7F}](?s:.)(?:\b\B)"),
        (r"\p{Pc}", "_|‿|⁀|⁔|︳|︴|﹍|﹎|﹏|＿"),
        (
            r"\.\x41\x{42}\103\a\f\t\n\r\v\0\_",
            r"\.ABC\x{07}\x{0C}\x{09}\x{0A}\x{0D}\x{0B}\x{00}_",
        ),
        (r"é+\x{e9}\xE9", "(?:é)+éé"),
        ("[é]", "é"),
        ("[aé]?", "(?:a|é)?"),
        ("[^a]{3}", "[^a]{3}"),
        ("a]}", r"a\]\}"),
        ("[a&b~c]", r"[\&a-c\~]"),
        ("[0-9-_][-a][a-]", r"[\-0-9_][\-a][\-a]"),
        (r"[\--/][+-\-]", r"[\--/][+-\-]"),
        ("[]a]", r"[\]a]"),
        ("[:/]+", "[/:]+"),
        (r"[\]\\^-]", r"[\-\\-\^]"),
        ("(a)(?P<n>b)(?<m>c)(?:d|e)f*?", "abc(?:d|e)f*"),
        ("(?:a*)*(b|)", "(?:a*)*(?:b|(?:))"),
        ("()", "(?:)"),
        ("a{0}b{1}(?:c{9}){0,0}", "b"),
        ("(?i)aB-1(?-i:c)é", "[Aa][Bb]-1c(?:É|é)"),
        ("(?i)[^a-c][[:upper:]]k", "[^A-Ca-c][A-Za-z][Kk]"),
        ("a(?i:b|c)d", "a(?:[Bb]|[Cc])d"),
        ("a(?i)b|c", "a[Bb]|[Cc]"),
        ("(?s).(?-s).(?U)a+", "(?s:.).a+"),
        ("^/x$", "/x"),
        (r"\A/x\z|^/y$", "/x|/y"),
        ("a^b$c", r"a\Ab\zc"),
        ("(?m)^a$", "(?m:^)a(?m:$)"),
        (r"\ba\B\b*", r"\ba\B"),
        (r"[\w-][\d-][[:digit:]-a]", r"[\-0-9A-Z_a-z][\-0-9][\-0-9a]"),
    ] {
        assert_eq!(printed(text), expected, "{text}");
    }
}

#[test]
fn what_cannot_be_translated_is_named() {
    let dots = ".".repeat(200);
    let long = "a".repeat(5000);
    for (text, expected) in [
        ("", "it is empty"),
        ("((", "unclosed group, found ("),
        ("a)", "unopened group, found )"),
        ("[a", "unclosed character class, found ["),
        ("[[:foo:]]", "or a class such as [:alpha:], found [:foo:]"),
        (r"\p{Nothing}", r"found \p{Nothing}"),
        (r"\p{Greek", "incomplete escape sequence"),
        (
            r"/\p{Letter}",
            r"expected a class of at most 64 characters beyond ASCII, or all of them, found \p{Letter}",
        ),
        (r"[^\pL]", r"found \pL"),
        ("[à-\u{200}]", "found [à-\u{200}]"),
        ("(?=a)", "found (?="),
        ("(?<=a)", "found (?<="),
        ("(?x)a", "expected the flags i, m, s and U, found x"),
        ("(?i-)a", "dangling flag negation operator, found -"),
        ("(?ii)a", "duplicate flag, found i"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name, found n"),
        ("(?P<a.b>c)", "found a.b"),
        (r"(a)\1", r"unrecognized escape sequence, found \1"),
        (r"\Z", r"unrecognized escape sequence, found \Z"),
        (r"\u0041", r"unrecognized escape sequence, found \u0041"),
        (r"\x{110000}", "is not a Unicode scalar value, found 110000"),
        (r"[\b]", r"found \b"),
        ("a**", "expected no repetition of a repetition, found *"),
        ("*a", "repetition operator missing expression, found *a"),
        ("a|{2}", "repetition operator missing expression, found {2}"),
        ("a{3,2}", "the start must be <= the end, found {3,2}"),
        ("[b-a]", "the start must be <= the end, found b-a"),
        ("[z--a]", r"expected \&, \~ and \- for these characters, found [z--a]"),
        ("[a&&b]", r"expected \&, \~ and \- for these characters, found [a&&b]"),
        ("[a~~b]", r"for these characters, found [a~~b]"),
        ("[+--]", r"for these characters, found [+--]"),
        (
            "[a[bc]]",
            r"expected \[ for the character, or a class such as [:alpha:], found [bc]",
        ),
        ("[]-a]", r"expected \- for the character, found []-a]"),
        ("[^]-a]", r"expected \- for the character, found [^]-a]"),
        ("[--/]", r"expected \- for the character, found [--/]"),
        (r"[\w-.]", r"found \w"),
        ("a{,3}", "repetition quantifier expects a valid decimal, found ,3}"),
        ("a{x}", "repetition quantifier expects a valid decimal, found x}"),
        ("a{01}", r"expected \{ for the character, or {1}, found {01}"),
        ("a{ 2}", r"found { 2}"),
        ("a{1, 2}", r"found {1, 2}"),
        ("a{", "found {"),
        (r"\b{start}", r"unrecognized escape sequence, found \b{start}"),
        (r"\<a", r"unrecognized escape sequence, found \<"),
        (r"[\<]", r"found \<"),
        (r"\Qa\E", r"unrecognized escape sequence, found \Q"),
        (r"\C", r"unrecognized escape sequence, found \C"),
        (&nested(251), "at most 250 groups and other parts within each other"),
        (&long, "expected at most 4096 bytes, found 5000"),
        (
            "[acegikmoqsuwy]{1000}",
            "expected a program of at most 1000 instructions, found 13005",
        ),
        (".{1000}", "found 9005"),
        (&dots, "found 1805"),
        ("((a{100}){100}){100}", "found 1000005"),
        (
            "(((((((((a{9999}){9999}){9999}){9999}){9999}){9999}){9999}){9999}){9999})",
            "found 4294967295",
        ),
    ] {
        let found = printed(text);
        assert!(
            found.starts_with("refused: ") && found.contains(expected),
            "{text}: {found}"
        );
    }
}

fn nested(groups: usize) -> String {
    "(".repeat(groups) + &")".repeat(groups)
}

#[test]
fn a_refusal_says_whose_limit_it_is() {
    let long = "a".repeat(5000);
    for limited in [
        &long,
        ".{1000}",
        &nested(251),
        r"\p{Letter}",
        "[à-\u{200}]",
        r"[^\pL]",
        r"\PL",
    ] {
        let found = printed(limited);
        let expected = "refused: expected a regular expression within Limpet's limits: expected ";
        assert!(found.starts_with(expected), "{found}");
    }
    for wrong in ["", "a)", "(", "[b-a]", r"\p{Nothing}", "[[:foo:]]", "(?=a)", "a**"] {
        let found = printed(wrong);
        assert!(
            found.starts_with("refused: expected a regular expression that RE2 and Rust read alike: "),
            "{found}"
        );
    }
}

/// Read alike by RE2 and Rust, of ASCII.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => "[a-cA-C/0 _.-]{1,2}".prop_map(|text| regex::escape(&text)),
        1 => Just(".".to_owned()),
        1 => prop::sample::select(vec!["[0-9]", "[^a-b]", "[A-Ca]", "[^/]", "[[:alpha:]]", "[[:^lower:]_]", r"[\]^-]"])
            .prop_map(str::to_owned),
        1 => prop::sample::select(vec!["^", "$", r"\A", r"\z", "(?m:^)", "(?m:$)", r"\x41", r"\t", "(?i)", "(?s)"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let repeated = (
            inner.clone(),
            prop::sample::select(vec!["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}"]),
        );
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|parts| format!("({})", parts.join("|"))),
            inner.prop_map(|part| format!("(?i:{part})")),
            repeated.prop_map(|(part, operator)| format!("(?:{part}){operator}")),
        ]
    })
}

fn matches(text: &str, value: &str) -> bool {
    // Without Unicode, as RE2 reads ASCII.
    let whole = regex::bytes::Regex::new(&format!(r"\A(?-u:(?:{text}))\z")).expect("an expression of Rust");
    whole.is_match(value.as_bytes())
}

proptest! {
    /// Takes seconds: each of 256 cases compiles two expressions.
    #[test]
    fn a_translation_matches_what_the_expression_matches(
        text in expressions(),
        values in prop::collection::vec("[a-cA-C/0 _.\n-]{0,6}", 8),
    ) {
        let printed = printed(&text);
        for value in values {
            prop_assert_eq!(matches(&text, &value), matches(&printed, &value), "{} {} {:?}", text, printed, value);
        }
    }

    /// The bound of its size may be lower, because alternatives of alternatives are printed as one list.
    #[test]
    fn a_translation_is_its_own_translation(text in r"[\[\]()?:^$.*+{}0-9a-c|\\dpLiés&~/-]{0,24}") {
        if let Ok(once) = Expression::parse(&text) {
            let twice = Expression::parse(once.as_str()).expect("what is printed is an expression");
            prop_assert_eq!(twice.as_str(), once.as_str());
            prop_assert!(twice.instructions() <= once.instructions(), "{:?} {:?}", twice, once);
        }
    }

    #[test]
    fn any_text_is_translated_or_refused(text in any::<String>()) {
        if let Ok(expression) = Expression::parse(&text) {
            prop_assert!(!expression.as_str().is_empty());
            prop_assert!(expression.instructions() <= Expression::MOST_INSTRUCTIONS);
        }
    }
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let mut cache = TranslationCache::default();
    let translation = || Expression::parse("a");
    cache.insert("used", translation());
    for number in 0..100_000 {
        cache.insert(&number.to_string(), translation());
        assert!(cache.get("used").is_some(), "forgotten after {number}");
    }
    assert!(cache.get("0").is_none());
    assert!(cache.len() <= 40_000, "{}", cache.len());
    let large = "x".repeat(Expression::MOST_BYTES);
    for number in 0..10_000 {
        cache.insert(&format!("{number}{large}"), translation());
    }
    assert!(cache.len() <= 5_000, "{}", cache.len());
}
