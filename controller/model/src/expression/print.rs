//! Expressions as text: characters, escaped where they could be syntax, classes of ranges, groups without capture,
//! alternatives, repetitions and assertions. Flags stand only around a single `.`, `^` or `$`.

use std::fmt::Write;

use super::class::Class;
use super::node::{Assertion, Node};

pub(super) fn print(node: &Node) -> String {
    let mut text = String::new();
    write(&mut text, node);
    text
}

pub(super) fn group(text: &str) -> String {
    format!("(?:{text})")
}

pub(super) fn literal(character: char) -> String {
    if r"\.+*?()|[]{}^$".contains(character) {
        format!("\\{character}")
    } else if character.is_ascii_control() {
        format!("\\x{{{:02X}}}", u32::from(character))
    } else {
        // RE2 reads what is not ASCII as the same bytes in either encoding, but not as its number.
        character.to_string()
    }
}

fn write(text: &mut String, node: &Node) {
    match node {
        Node::Empty => text.push_str("(?:)"),
        Node::Never => text.push_str(r"(?:\b\B)"),
        Node::Character(character) => text.push_str(&literal(*character)),
        Node::Class(class) => write_class(text, class),
        Node::Byte => text.push_str(r"\C"),
        Node::Assertion(assertion) => text.push_str(match assertion {
            Assertion::TextStart => r"\A",
            Assertion::TextEnd => r"\z",
            Assertion::LineStart => "(?m:^)",
            Assertion::LineEnd => "(?m:$)",
            Assertion::WordBoundary => r"\b",
            Assertion::NoWordBoundary => r"\B",
        }),
        Node::Repeat { node, least, most } => {
            if is_atom(node) {
                write(text, node);
            } else {
                text.push_str(&group(&print(node)));
            }
            text.push_str(&operator(*least, *most));
        }
        Node::Concat(nodes) => {
            for node in nodes {
                if let Node::Alternate(_) = node {
                    text.push_str(&group(&print(node)));
                } else {
                    write(text, node);
                }
            }
        }
        Node::Alternate(nodes) => {
            let branches: Vec<String> = nodes.iter().map(print).collect();
            text.push_str(&branches.join("|"));
        }
    }
}

/// Whether an operator behind its text repeats all of it. A character of several bytes is several for the RE2 that
/// reads bytes.
fn is_atom(node: &Node) -> bool {
    match node {
        Node::Character(character) => character.is_ascii(),
        Node::Class(_) | Node::Byte | Node::Never => true,
        _ => false,
    }
}

fn operator(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, None) => "*".to_owned(),
        (1, None) => "+".to_owned(),
        (0, Some(1)) => "?".to_owned(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) if least == most => format!("{{{least}}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    }
}

fn write_class(text: &mut String, class: &Class) {
    if !class.others {
        return write_ranges(text, "[", &class.ascii);
    }
    match class.missing_ascii().as_slice() {
        [] => text.push_str("(?s:.)"),
        [(b'\n', b'\n')] => text.push('.'),
        missing => write_ranges(text, "[^", missing),
    }
}

fn write_ranges(text: &mut String, open: &str, ranges: &[(u8, u8)]) {
    text.push_str(open);
    for (first, last) in ranges {
        write_in_class(text, *first);
        if last - first > 1 {
            text.push('-');
        }
        if last > first {
            write_in_class(text, *last);
        }
    }
    text.push(']');
}

fn write_in_class(text: &mut String, byte: u8) {
    let written = if byte.is_ascii_control() {
        write!(text, "\\x{{{byte:02X}}}")
    } else if br"\]^[-&~".contains(&byte) {
        write!(text, "\\{}", char::from(byte))
    } else {
        write!(text, "{}", char::from(byte))
    };
    debug_assert!(written.is_ok(), "a String takes everything");
}
