//! Ids of keys in words.

use std::collections::BTreeSet;

/// `key 3`, `keys 3 and 4`, or `keys 1, 2 and 3`.
pub(crate) fn keys(ids: &BTreeSet<u8>) -> String {
    let ids: Vec<String> = ids.iter().map(u8::to_string).collect();
    match ids.as_slice() {
        [] => "no key".to_owned(),
        [id] => format!("key {id}"),
        [first @ .., last] => format!("keys {} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_listed_as_people_do() {
        for (ids, words) in [
            (&[][..], "no key"),
            (&[3], "key 3"),
            (&[3, 4], "keys 3 and 4"),
            (&[200, 1, 2], "keys 1, 2 and 200"),
        ] {
            assert_eq!(keys(&ids.iter().copied().collect()), words);
        }
    }
}
