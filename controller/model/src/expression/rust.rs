//! RE2's syntax (google/re2, `doc/syntax.txt`) in the words of Rust's parser, which knows more operations on classes,
//! no quotes, and no text that only looks like a repetition.

use super::part::{group, literal};

/// Stands for `\C`, which Rust does not have. RE2 does not have this one, and its brace would be text.
const ANY_BYTE: &str = r"\b{start-half}";

/// Writes an expression of RE2 as Rust reads it. What RE2 does not read is refused by Rust or by the translation.
pub(super) fn for_rust(mut rest: &str) -> String {
    let mut written = String::with_capacity(rest.len());
    while let Some(token) = next(&mut rest) {
        match token {
            // In groups, it cannot continue the token before it.
            r"\Q" if !rest.starts_with(r"\E") => {
                let (quoted, behind) = rest.split_once(r"\E").unwrap_or((rest, ""));
                written.extend(quoted.chars().map(|character| group(&literal(character))));
                rest = behind;
            }
            "{" if !begins_counts(rest) => written.push_str(r"\{"),
            "[" => class(&mut rest, &mut written),
            token => written.push_str(token),
        }
    }
    written
}

/// Takes a character or the beginning of an escape sequence, all of it if it has braces or names a class.
fn next<'t>(rest: &mut &'t str) -> Option<&'t str> {
    let mut characters = rest.chars();
    let length = |characters: std::str::Chars<'_>| rest.len() - characters.as_str().len();
    let end = match characters.next()? {
        '\\' => match (characters.next(), characters.clone().next()) {
            (Some('x' | 'p' | 'P'), Some('{')) => rest.find('}').map_or(rest.len(), |end| end + 1),
            (Some('p' | 'P'), Some(letter)) => length(characters) + letter.len_utf8(),
            _ => length(characters),
        },
        _ => length(characters),
    };
    let (token, behind) = rest.split_at_checked(end)?;
    *rest = behind;
    Some(match token {
        // For Rust, these are the beginning and the end of a word.
        r"\<" => r"\x3C",
        r"\>" => r"\x3E",
        r"\C" => ANY_BYTE,
        token => token,
    })
}

/// Whether it is the rest of `{2}`, `{2,}` or `{2,3}`.
fn begins_counts(rest: &str) -> bool {
    let is_number = |text: &str| {
        let is_number = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        is_number && (text == "0" || !text.starts_with('0'))
    };
    let inside = rest.split_once('}').map_or("", |(inside, _)| inside);
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    is_number(least) && (most.is_empty() || is_number(most))
}

/// The rest of a class in brackets. What is a character for RE2 is escaped.
fn class(rest: &mut &str, written: &mut String) {
    written.push('[');
    if let Some(behind) = rest.strip_prefix('^') {
        written.push('^');
        *rest = behind;
    }
    let mut is_first = true;
    loop {
        if let Some((name, behind)) = rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
            written.extend(["[:", name, ":]"]);
            *rest = behind;
        } else if !is_first && let Some(behind) = rest.strip_prefix(']') {
            written.push(']');
            *rest = behind;
            return;
        } else {
            let Some(first) = character(rest, written) else { return };
            let escaped = first.strip_prefix('\\').unwrap_or_default();
            let is_class = escaped.starts_with(['d', 'D', 's', 'S', 'w', 'W', 'p', 'P']);
            if !is_class
                && !rest.starts_with("-]")
                && let Some(behind) = rest.strip_prefix('-')
            {
                written.push('-');
                *rest = behind;
                character(rest, written);
            }
        }
        is_first = false;
    }
}

fn character<'t>(rest: &mut &'t str, written: &mut String) -> Option<&'t str> {
    let token = next(rest)?;
    if "[]&~^-".contains(token) {
        written.push('\\');
    }
    written.push_str(token);
    Some(token)
}
