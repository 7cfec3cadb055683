//! Sets of characters.

use regex_syntax::ast::{ClassPerl, ClassPerlKind};
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use super::over_limit;
use super::part::{ExpressionPart, escaped};

/// Characters beyond ASCII that a class may name, if it does not take all of them.
const MOST_OTHERS: usize = 64;
/// The size of all characters beyond ASCII, of two to four bytes.
const BEYOND_ASCII: usize = 7;
const ASCII: (char, char) = ('\0', '\x7f');
const OTHERS: (char, char) = ('\u{80}', char::MAX);

pub(super) fn of(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(first, last)| ClassUnicodeRange::new(*first, *last)))
}

fn within(set: &ClassUnicode, part: (char, char)) -> ClassUnicode {
    let mut found = set.clone();
    found.intersect(&of(&[part]));
    found
}

pub(super) fn negated_if(mut set: ClassUnicode, is_negated: bool) -> ClassUnicode {
    if is_negated {
        set.negate();
    }
    set
}

/// `\d`, `\s` or `\w`, or their opposites. RE2's are ASCII.
pub(super) fn perl(class: &ClassPerl) -> ClassUnicode {
    let ranges: &[(char, char)] = match class.kind {
        ClassPerlKind::Digit => &[('0', '9')],
        ClassPerlKind::Space => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
        ClassPerlKind::Word => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
    };
    negated_if(of(ranges), class.negated)
}

/// A class by its name, like `\p{Greek}` or `[[:alpha:]]`.
pub(super) fn named(text: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(text).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        // A class of one character.
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            Some(of(&text.chars().map(|c| (c, c)).collect::<Vec<_>>()))
        }
        _ => None,
    }
}

/// Adds both cases of each letter. ASCII stays ASCII: the Kelvin sign is a k only for the RE2 that reads characters.
///
/// # Errors
/// As [`others`].
pub(super) fn folded(set: &ClassUnicode, written: &str) -> Result<ClassUnicode, String> {
    let mut folded = ClassUnicode::empty();
    for part in [ASCII, OTHERS] {
        let mut found = within(set, part);
        // Folding goes through each character.
        if found != of(&[part]) {
            others(&found, written)?;
            found.try_case_fold_simple().map_err(|error| error.to_string())?;
            found = within(&found, part);
        }
        folded.union(&found);
    }
    Ok(folded)
}

/// The characters beyond ASCII, `None` for all of them.
///
/// # Errors
/// If they are too many, and not all.
pub(super) fn others(set: &ClassUnicode, written: &str) -> Result<Option<Vec<char>>, String> {
    let others = within(set, OTHERS);
    if others == of(&[OTHERS]) {
        return Ok(None);
    }
    if others.iter().map(ClassUnicodeRange::len).sum::<usize>() > MOST_OTHERS {
        return Err(over_limit(&format!(
            "expected a class of at most {MOST_OTHERS} characters beyond ASCII, or all of them, found {written}"
        )));
    }
    let characters = others.iter().flat_map(|range| range.start()..=range.end());
    Ok(Some(characters.collect()))
}

/// Characters beyond ASCII are alternatives: a range of them differs between an RE2 that reads characters and one that
/// reads bytes.
///
/// # Errors
/// As [`others`].
pub(super) fn part(set: &ClassUnicode, written: &str) -> Result<ExpressionPart, String> {
    let ascii = within(set, ASCII);
    let Some(others) = others(set, written)? else {
        let missing = negated_if(set.clone(), true);
        let text = match missing.ranges() {
            [] => "(?s:.)".to_owned(),
            [newline] if (newline.start(), newline.end()) == ('\n', '\n') => ".".to_owned(),
            missing => ranges("[^", missing),
        };
        return Ok(ExpressionPart::class(text, ascii.ranges().len() + BEYOND_ASCII));
    };
    let mut parts: Vec<ExpressionPart> = others.into_iter().map(ExpressionPart::character).collect();
    match ascii.ranges() {
        [] if parts.is_empty() => return Ok(ExpressionPart::never()),
        [] => {}
        [only] if only.len() == 1 => parts.insert(0, ExpressionPart::character(only.start())),
        // A letter in both cases is one instruction.
        [upper, lower] if upper.len() + lower.len() == 2 && lower.start().to_ascii_uppercase() == upper.start() => {
            parts.insert(0, ExpressionPart::class(ranges("[", ascii.ranges()), 1));
        }
        some => parts.insert(0, ExpressionPart::class(ranges("[", some), some.len())),
    }
    Ok(ExpressionPart::alternatives(parts))
}

fn ranges(open: &str, ranges: &[ClassUnicodeRange]) -> String {
    let mut text = open.to_owned();
    for range in ranges {
        let syntax = r"\]^[-&~";
        text.push_str(&escaped(range.start(), syntax));
        if range.len() > 2 {
            text.push('-');
        }
        if range.len() > 1 {
            text.push_str(&escaped(range.end(), syntax));
        }
    }
    text.push(']');
    text
}
