//! The path of a cookie, from the matches of the rule, by the older rule of GEP-1619 (Cookie Attributes, Path).

use std::collections::BTreeMap;

use crate::graph::PathMatch;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CookiePaths {
    /// A path that contains all matches.
    pub(super) all: String,
    pub(super) each: BTreeMap<PathMatch, String>,
}

/// A rule without matches matches all paths.
pub(super) fn derive(paths: &[PathMatch]) -> CookiePaths {
    let each: BTreeMap<PathMatch, String> = paths.iter().map(|path| (path.clone(), of_match(path))).collect();
    let mut all: Option<&str> = None;
    for path in each.values() {
        all = Some(all.map_or(path.as_str(), |all| common(all, path)));
    }
    let all = non_empty(all.unwrap_or_default());
    let differ = each.values().any(|path| *path != all);
    CookiePaths {
        each: if differ { each } else { BTreeMap::new() },
        all,
    }
}

fn of_match(path: &PathMatch) -> String {
    match path {
        PathMatch::Exact(path) | PathMatch::Prefix(path) | PathMatch::Text(path) => non_empty(path),
        PathMatch::Regex(expression) => non_empty(literal_prefix(expression)),
    }
}

fn non_empty(path: &str) -> String {
    if path.is_empty() { "/" } else { path }.to_owned()
}

/// The longest path that contains both.
fn common<'a>(one: &'a str, two: &str) -> &'a str {
    let is_within = |path: &str, end: usize| {
        let rest = path.get(end..);
        path.get(..end) == one.get(..end) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let ends = one.match_indices('/').map(|(at, _)| at).chain([one.len()]);
    let longest = ends.filter(|end| is_within(one, *end) && is_within(two, *end)).max();
    one.get(..longest.unwrap_or(0)).unwrap_or_default()
}

/// The whole segments that begin all paths of the expression, if it has no alternatives at its top level.
pub(crate) fn literal_prefix(expression: &str) -> &str {
    let expression = expression.strip_prefix('^').unwrap_or(expression);
    if has_alternatives(expression) {
        return "";
    }
    let Some(end) = expression.find(|c: char| r"\.[](){}*+?$|^".contains(c)) else {
        return expression;
    };
    if expression.get(end..) == Some("$") {
        return expression.trim_end_matches('$');
    }
    // An operator may repeat the last character, and the segment may continue. So only whole segments count.
    let literal = expression.get(..end).unwrap_or_default();
    let whole = literal.rfind('/').unwrap_or(0);
    let is_repeated = literal.ends_with('/')
        && expression
            .get(end..)
            .is_some_and(|rest| rest.starts_with(['*', '?', '{']));
    let literal = literal.get(..whole).unwrap_or_default();
    if is_repeated {
        // The slash itself is optional, so the segment before it may continue.
        let whole = literal.rfind('/').unwrap_or(0);
        return literal.get(..whole).unwrap_or_default();
    }
    literal
}

fn has_alternatives(expression: &str) -> bool {
    let mut depth = 0_u32;
    let mut in_class = false;
    let mut characters = expression.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth = depth.saturating_sub(1),
            '|' if !in_class && depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(path: &str) -> PathMatch {
        PathMatch::Prefix(path.to_owned())
    }

    fn regex(path: &str) -> PathMatch {
        PathMatch::Regex(path.to_owned())
    }

    #[test]
    fn one_path_is_the_cookies_path() {
        for (path, expected) in [
            (prefix(""), "/"),
            (prefix("/a"), "/a"),
            (PathMatch::Exact("/a/b".to_owned()), "/a/b"),
            (PathMatch::Exact("/".to_owned()), "/"),
            (regex("/p1/p2/.*/p3"), "/p1/p2"),
            (regex("^/p1/p2/[^/]+/p3$"), "/p1/p2"),
            (regex("/p1/p2"), "/p1/p2"),
            (regex("/p1/p2$"), "/p1/p2"),
            (regex("/p1/p2x*"), "/p1"),
            (regex("/p1/p2.*"), "/p1"),
            (regex("/p1/(a|b)"), "/p1"),
            (regex("/p1/p2/*"), "/p1"),
            (regex("/p1/p2/?"), "/p1"),
            (regex("/a/b|/c"), "/"),
            (regex("/a/b(x)|/c"), "/"),
            (regex(r"/a/b\.c"), "/a"),
            (regex("/a/[|]"), "/a"),
            (regex("(?i)/a"), "/"),
            (regex(".*"), "/"),
            (regex(""), "/"),
        ] {
            let derived = derive(std::slice::from_ref(&path));
            assert_eq!((derived.all.as_str(), derived.each.len()), (expected, 0), "{path:?}");
        }
        assert_eq!(derive(&[]).all, "/");
    }

    #[test]
    fn several_paths_have_a_cookie_each() {
        for (paths, all) in [
            (["/a", "/b"], "/"),
            (["/a/b", "/a/c"], "/a"),
            (["/a", "/a/c"], "/a"),
            (["/ab", "/a"], "/"),
            (["", "/a"], "/"),
        ] {
            let matches = paths.map(prefix);
            let derived = derive(&matches);
            assert_eq!(derived.all, all, "{paths:?}");
            let each = paths.map(|path| (prefix(path), if path.is_empty() { "/" } else { path }.to_owned()));
            assert_eq!(derived.each, BTreeMap::from(each), "{paths:?}");
        }
        assert!(derive(&[prefix("/a"), prefix("/a")]).each.is_empty());
    }
}
