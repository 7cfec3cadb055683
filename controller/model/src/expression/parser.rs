//! Reads the syntax of RE2 (google/re2, `doc/syntax.txt`) as RE2 reads it.

use std::mem::{replace, take};

use super::class::{Class, Others, Set};
use super::node::{Assertion, Node};
use super::{not_re2, over_limit};

/// The maximum nesting of groups.
const DEPTH: u32 = 100;

/// Parses an expression.
///
/// # Errors
/// If RE2 does not read it, or it is beyond a limit of Limpet's. The message says which of the two.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut parser = Parser {
        text,
        at: 0,
        flags: Flags::default(),
        depth: 0,
        repeated: false,
        over_limit: false,
    };
    match parser.alternatives() {
        Ok(node) if parser.rest().is_empty() => Ok(node),
        Ok(_) => Err(not_re2("found ) without (")),
        Err(message) if parser.over_limit => Err(over_limit(&message)),
        Err(message) => Err(not_re2(&message)),
    }
}

/// `U` is read and means nothing where whole values are matched.
#[derive(Clone, Copy, Default)]
struct Flags {
    ignores_case: bool,
    multi_line: bool,
    dot_takes_newline: bool,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    flags: Flags,
    depth: u32,
    /// Whether the last token was a repetition.
    repeated: bool,
    /// Whether an error is about a limit of Limpet's.
    over_limit: bool,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Notes that an error is about the size of a class.
    fn limited<T>(&mut self, result: Result<T, String>) -> Result<T, String> {
        self.over_limit |= result.is_err();
        result
    }

    /// What was read since `start`.
    fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn alternatives(&mut self) -> Result<Node, String> {
        let mut branches = Vec::new();
        let mut branch = Vec::new();
        while let Some(next) = self.peek().filter(|next| *next != ')') {
            if next == '|' {
                self.bump();
                self.repeated = false;
                branches.push(Node::concat(take(&mut branch)));
            } else {
                self.token(&mut branch)?;
            }
        }
        branches.push(Node::concat(branch));
        Ok(Node::alternate(branches))
    }

    fn token(&mut self, branch: &mut Vec<Node>) -> Result<(), String> {
        let was_repeated = replace(&mut self.repeated, false);
        let start = self.at;
        let node = match self.bump() {
            None => return Ok(()),
            Some('*') => return self.repetition(branch, start, was_repeated, (0, None)),
            Some('+') => return self.repetition(branch, start, was_repeated, (1, None)),
            Some('?') => return self.repetition(branch, start, was_repeated, (0, Some(1))),
            Some('{') => match self.counts() {
                Some(counts) => return self.repetition(branch, start, was_repeated, counts),
                None => self.character('{')?,
            },
            Some('(') => match self.group()? {
                Some(node) => node,
                None => return Ok(()),
            },
            Some('[') => self.class(start)?,
            Some('\\') if self.eat("Q") => return self.quoted(branch),
            Some('\\') => self.escape(start)?,
            Some('.') if self.flags.dot_takes_newline => of_set(&Set::all())?,
            Some('.') => of_set(&Set::of(&[('\n', '\n')]).negated_if(true))?,
            Some('^') if self.flags.multi_line => Node::Assertion(Assertion::LineStart),
            Some('^') => Node::Assertion(Assertion::TextStart),
            Some('$') if self.flags.multi_line => Node::Assertion(Assertion::LineEnd),
            Some('$') => Node::Assertion(Assertion::TextEnd),
            Some(character) => self.character(character)?,
        };
        branch.push(node);
        Ok(())
    }

    fn repetition(
        &mut self,
        branch: &mut Vec<Node>,
        start: usize,
        was_repeated: bool,
        (least, most): (u32, Option<u32>),
    ) -> Result<(), String> {
        self.eat("?");
        self.repeated = true;
        let found = self.since(start);
        if most.is_some_and(|most| most < least) {
            return Err(format!("expected the smaller number first, found {found}"));
        }
        match branch.pop() {
            Some(node) if !was_repeated => {
                branch.push(node.repeat(least, most));
                Ok(())
            }
            Some(_) => Err(format!("found {found} behind another repetition")),
            None => Err(format!("found {found} with nothing to repeat")),
        }
    }

    /// The rest of `{2}`, `{2,}` or `{2,3}`. Everything else is no repetition for RE2, but text.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let (inside, _) = self.rest().split_once('}')?;
        let number = |text: &str| {
            let is_number = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            let is_number = is_number && (text == "0" || !text.starts_with('0'));
            is_number.then(|| text.parse().ok()).flatten()
        };
        let counts = match inside.split_once(',') {
            None => (number(inside)?, Some(number(inside)?)),
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        self.at += inside.len() + 1;
        Some(counts)
    }

    /// What follows a `(`. `None` if it sets flags and is no group.
    fn group(&mut self) -> Result<Option<Node>, String> {
        let outer = self.flags;
        if self.eat("?") && !self.eat(":") {
            let looks_behind = self.rest().starts_with("<=") || self.rest().starts_with("<!");
            if self.eat("P<") || (!looks_behind && self.eat("<")) {
                self.group_name()?;
            } else if !self.group_flags()? {
                return Ok(None);
            }
        }
        if self.depth == DEPTH {
            self.over_limit = true;
            return Err(format!("expected at most {DEPTH} groups within each other"));
        }
        self.depth += 1;
        let node = self.alternatives()?;
        self.depth -= 1;
        if !self.eat(")") {
            return Err("found ( without )".to_owned());
        }
        self.flags = outer;
        self.repeated = false;
        Ok(Some(node))
    }

    fn group_name(&mut self) -> Result<(), String> {
        let (name, _) = self.rest().split_once('>').ok_or("found a group's name without >")?;
        self.at += name.len() + 1;
        if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            Ok(())
        } else {
            Err(format!(
                "expected letters, digits and _ in the name of a group, found {name:?}"
            ))
        }
    }

    /// Reads flags after `(?`. Whether a group follows them.
    fn group_flags(&mut self) -> Result<bool, String> {
        let start = self.at;
        let mut flags = self.flags;
        let mut on = true;
        let mut any = false;
        loop {
            match self.bump() {
                Some('i') => flags.ignores_case = on,
                Some('m') => flags.multi_line = on,
                Some('s') => flags.dot_takes_newline = on,
                Some('U') => {}
                Some('-') if on => {
                    on = false;
                    any = false;
                    continue;
                }
                Some(end @ (':' | ')')) if on || any => {
                    self.flags = flags;
                    return Ok(end == ':');
                }
                _ => {
                    let found = self.since(start);
                    return Err(format!("expected a group or the flags i, m, s and U, found (?{found}"));
                }
            }
            any = true;
        }
    }

    /// The rest of `\Q...\E`.
    fn quoted(&mut self, branch: &mut Vec<Node>) -> Result<(), String> {
        while !self.eat("\\E") {
            let Some(next) = self.bump() else { break };
            branch.push(self.character(next)?);
        }
        Ok(())
    }

    /// What follows a backslash outside of classes.
    fn escape(&mut self, start: usize) -> Result<Node, String> {
        if let Some(set) = self.named_class(start)? {
            let node = of_set(&set);
            return self.limited(node);
        }
        let assertion = [
            ("b", Assertion::WordBoundary),
            ("B", Assertion::NoWordBoundary),
            ("A", Assertion::TextStart),
            ("z", Assertion::TextEnd),
        ];
        for (letter, assertion) in assertion {
            if self.eat(letter) {
                return Ok(Node::Assertion(assertion));
            }
        }
        if self.eat("C") {
            return Ok(Node::Byte);
        }
        let character = self.escaped_character(start)?;
        self.character(character)
    }

    /// `\d` or `\pN`, whose backslash is read already.
    fn named_class(&mut self, start: usize) -> Result<Option<Set>, String> {
        let Some(letter) = self.peek() else { return Ok(None) };
        if let Some(set) = Set::perl(letter) {
            self.bump();
            // Folding first would fold the wrong side of a negated class.
            return Ok(Some(set));
        }
        if !matches!(letter, 'p' | 'P') {
            return Ok(None);
        }
        self.bump();
        let name = if self.eat("{") {
            let (name, _) = self
                .rest()
                .split_once('}')
                .ok_or_else(|| format!("found {} without }}", self.since(start)))?;
            self.at += name.len() + 1;
            name
        } else {
            let at = self.at;
            self.bump();
            self.since(at)
        };
        let (name, is_negated) = match name.strip_prefix('^') {
            Some(name) => (name, letter == 'p'),
            None => (name, letter == 'P'),
        };
        let found = self.since(start);
        let set = Set::unicode(name).ok_or_else(|| {
            format!("expected a general category, such as Lu, or a script, such as Greek, found {found}")
        })?;
        let checked = set.others().and_then(|_| self.with_case(set));
        let checked = checked.map_err(|expected| format!("expected a class of {expected}, found {found}"));
        let set = self.limited(checked)?;
        Ok(Some(set.negated_if(is_negated)))
    }

    /// The character after a backslash that is read already.
    fn escaped_character(&mut self, start: usize) -> Result<char, String> {
        let character = match self.bump() {
            Some(digit @ '0'..='7') => self.octal(digit),
            Some('x') => self.hexadecimal(),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('a') => Some('\x07'),
            Some('f') => Some('\x0c'),
            Some('v') => Some('\x0b'),
            Some(other) if other.is_ascii() && !other.is_ascii_alphanumeric() => Some(other),
            _ => None,
        };
        character.ok_or_else(|| format!("there is no escape sequence {}", self.since(start)))
    }

    /// Up to three digits. One digit but 0 would be a reference to a group, which RE2 does not have.
    fn octal(&mut self, first: char) -> Option<char> {
        let mut value = first.to_digit(8)?;
        for place in 0..2 {
            match self.peek().and_then(|next| next.to_digit(8)) {
                Some(digit) => value = value * 8 + digit,
                None if place == 0 && first != '0' => return None,
                None => break,
            }
            self.bump();
        }
        char::from_u32(value)
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let digits = if self.eat("{") {
            let (digits, _) = self.rest().split_once('}')?;
            self.at += digits.len() + 1;
            digits
        } else {
            let digits = self.rest().get(..2)?;
            self.at += 2;
            digits
        };
        let are_digits = digits.bytes().all(|b| b.is_ascii_hexdigit());
        are_digits.then(|| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32))?
    }

    fn character(&self, character: char) -> Result<Node, String> {
        if self.flags.ignores_case {
            of_set(&self.with_case(Set::of(&[(character, character)]))?)
        } else {
            Ok(Node::Character(character))
        }
    }

    fn with_case(&self, set: Set) -> Result<Set, String> {
        if self.flags.ignores_case { set.folded() } else { Ok(set) }
    }

    /// The rest of a class in brackets.
    fn class(&mut self, start: usize) -> Result<Node, String> {
        let is_negated = self.eat("^");
        let mut set = Set::empty();
        let mut is_first = true;
        while is_first || !self.rest().starts_with(']') {
            if self.rest().is_empty() {
                return Err("found [ without ]".to_owned());
            }
            is_first = false;
            set.add(&self.class_item()?);
        }
        self.bump();
        let node = of_set(&set.negated_if(is_negated))
            .map_err(|expected| format!("expected a class of {expected}, found {}", self.since(start)));
        self.limited(node)
    }

    fn class_item(&mut self) -> Result<Set, String> {
        let start = self.at;
        if let Some((name, _)) = self.rest().strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
            self.at += name.len() + 4;
            let (positive, is_negated) = match name.strip_prefix('^') {
                Some(positive) => (positive, true),
                None => (name, false),
            };
            let set = Set::posix(positive).ok_or_else(|| format!("there is no class [:{name}:]"))?;
            return Ok(self.with_case(set)?.negated_if(is_negated));
        }
        if self.eat("\\") {
            if let Some(set) = self.named_class(start)? {
                return Ok(set);
            }
            self.at = start;
        }
        let first = self.class_character()?;
        let is_range = self.rest().starts_with('-') && !self.rest().starts_with("-]") && self.rest().len() > 1;
        let last = if is_range {
            self.bump();
            self.class_character()?
        } else {
            first
        };
        let found = self.since(start);
        if last < first {
            return Err(format!("expected the smaller character first, found {found}"));
        }
        let set = self
            .with_case(Set::of(&[(first, last)]))
            .map_err(|expected| format!("expected a class of {expected}, found {found}"));
        self.limited(set)
    }

    fn class_character(&mut self) -> Result<char, String> {
        let start = self.at;
        match self.bump() {
            None => Err("found [ without ]".to_owned()),
            Some('\\') => self.escaped_character(start),
            Some(character) => Ok(character),
        }
    }
}

/// A set as a node. Characters beyond ASCII are alternatives: no range of them means the same to an RE2 that reads
/// characters and to one that reads bytes.
fn of_set(set: &Set) -> Result<Node, String> {
    let ascii = set.ascii();
    let others = match set.others()? {
        Others::All => return Ok(Node::Class(Class { ascii, others: true })),
        Others::Some(others) => others,
    };
    let ascii = match ascii.as_slice() {
        [] => None,
        [(first, last)] if first == last => Some(Node::Character(char::from(*first))),
        _ => Some(Node::Class(Class { ascii, others: false })),
    };
    let nodes: Vec<Node> = ascii
        .into_iter()
        .chain(others.into_iter().map(Node::Character))
        .collect();
    Ok(if nodes.is_empty() {
        Node::Never
    } else {
        Node::alternate(nodes)
    })
}
