use proptest::prelude::*;

use super::*;

/// A rule is called by the text before the colon, and matches the one after it: `cart:a`, `:b`.
fn rules(text: &str) -> Vec<RuleIdentity<'_>> {
    let rule = |text| {
        let (name, matches): (&str, &str) = str::split_once(text, ':').unwrap();
        RuleIdentity {
            own_name: (!name.is_empty()).then_some(name),
            matches: short_hash(matches.as_bytes()),
        }
    };
    text.split_whitespace().map(rule).collect()
}

/// After each change, as the matches that they are hashes of.
fn names(changes: &[&str]) -> Vec<String> {
    let mut memory = Vec::new();
    let mut names = Vec::new();
    for change in changes {
        (names, memory) = assign(&memory, &rules(change));
    }
    let letter = |name: &String| {
        let letters = ('a'..='z').map(String::from);
        let mut letters = letters.filter(|letter| short_hash(letter.as_bytes()) == *name);
        letters.next().unwrap_or_else(|| name.clone())
    };
    names.iter().map(letter).collect()
}

#[test]
fn a_rule_that_changes_its_matches_keeps_its_name() {
    for (changes, expected) in [
        (&[":a", ":x"][..], &["a"][..]),
        (&[":a :b :c", ":a :x :c"], &["a", "b", "c"]),
        (&[":a :b :c", ":x :b :c"], &["a", "b", "c"]),
        (&[":a :b :c", ":a :b :x"], &["a", "b", "c"]),
        (&[":a cart:b :c", ":a cart:x :y"], &["a", "cart", "c"]),
        (&[":a :b", ":x :b", ":y :b"], &["a", "b"]),
        (&[":a :b", ":x :b", ":a :b"], &["a", "b"]),
        (&[":a :b :c", ":x :b :y"], &["a", "b", "c"]),
        (&[":a :b :c", ":x :y :c"], &["a", "b", "c"]),
    ] {
        assert_eq!(names(changes), expected, "{changes:?}");
    }
}

#[test]
fn moved_and_new_rules_do_not_change_names() {
    for (changes, expected) in [
        (&[":a :b :c", ":c :a :b"][..], &["c", "a", "b"][..]),
        (&[":a :b", ":a :n :b"], &["a", "n", "b"]),
        (&[":a :b :c", ":a :c"], &["a", "c"]),
        (&[":a :b", ":x :b", ":b :x"], &["b", "a"]),
        (&[":a :b", ":b :n"], &["b", "n"]),
        (&[":a :b", ":n :m :b"], &["n", "m", "b"]),
        (&[":a :b", "cart:a :n :b"], &["cart", "n", "b"]),
        (&[":a :b", ":x :b", "cart:x :b"], &["cart", "b"]),
        (&[":a :a", ":a :n"], &["a", "n"]),
        (&[":a :a", ":x :x"], &["a", "a"]),
    ] {
        assert_eq!(names(changes), expected, "{changes:?}");
    }
}

#[test]
fn a_name_in_use_is_not_given_to_another_rule() {
    let kept = names(&[":a :b", ":x :b", ":x :b :a"]);
    assert_eq!(kept[..2], ["a", "b"]);
    assert_eq!(kept[2].len(), 8, "{kept:?}");
    let own = short_hash(b"a");
    let text = format!(":x :b {own}:n");
    let named = names(&[":a :b", ":x :b", &text]);
    assert_eq!(named, ["x", "b", "a"]);
}

proptest! {
    #[test]
    fn the_memory_leads_to_the_same_names(states in prop::collection::vec("((|[mn]):[a-f] ){0,6}", 1..5)) {
        let mut memory = Vec::new();
        for state in &states {
            let read = rules(state);
            let (names, next) = assign(&memory, &read);
            prop_assert_eq!(assign(&next, &read), (names.clone(), next.clone()));
            let mut by_name = BTreeMap::new();
            for (rule, name) in read.iter().zip(&names).filter(|(rule, _)| rule.own_name.is_none()) {
                prop_assert_eq!(by_name.entry(name).or_insert(&rule.matches), &&rule.matches);
            }
            memory = next;
        }
    }

    #[test]
    fn one_change_among_any_rules_moves_no_name(
        letters in prop::sample::subsequence(('a'..='h').collect::<Vec<_>>(), 1..8),
        index in any::<prop::sample::Index>(),
    ) {
        let text = |letters: &[char]| {
            let words = letters.iter().map(|letter| format!(" :{letter}"));
            words.collect::<String>()
        };
        let (before, memory) = assign(&[], &rules(&text(&letters)));
        let mut changed = letters.clone();
        changed[index.index(letters.len())] = 'x';
        prop_assert_eq!(assign(&memory, &rules(&text(&changed))).0, before);
    }
}
