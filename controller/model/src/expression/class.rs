//! Sets of characters.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange, HirKind};

/// How many characters beyond ASCII a class may name, if it does not take all of them.
const MOST_OTHERS: usize = 64;
const LAST_ASCII: char = '\x7f';
const FIRST_OTHER: char = '\u{80}';

/// A set of ASCII, with or without all other characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    /// Ranges without overlap, in order.
    pub(super) ascii: Vec<(u8, u8)>,
    pub(super) others: bool,
}

/// The characters beyond ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Others {
    Some(Vec<char>),
    All,
}

impl Class {
    /// Whether it is an ASCII letter in both cases, which is one instruction for RE2.
    pub(super) fn is_letter(&self) -> bool {
        match self.ascii.as_slice() {
            [(a, b), (c, d)] => a == b && c == d && a.is_ascii_uppercase() && *c == a.to_ascii_lowercase(),
            _ => false,
        }
    }

    /// The ranges of ASCII that are not in it.
    pub(super) fn missing_ascii(&self) -> Vec<(u8, u8)> {
        let mut next = 0;
        let mut missing = Vec::new();
        for (first, last) in &self.ascii {
            if next < *first {
                missing.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= 0x7f {
            missing.push((next, 0x7f));
        }
        missing
    }
}

/// A set while it is read.
#[derive(Debug, Clone)]
pub(super) struct Set(ClassUnicode);

impl Set {
    pub(super) fn empty() -> Self {
        Self(ClassUnicode::empty())
    }

    pub(super) fn of(ranges: &[(char, char)]) -> Self {
        let ranges = ranges.iter().map(|(first, last)| ClassUnicodeRange::new(*first, *last));
        Self(ClassUnicode::new(ranges))
    }

    pub(super) fn all() -> Self {
        Self::of(&[('\0', char::MAX)])
    }

    /// `\d`, `\s` or `\w`, or their opposites. RE2's are ASCII.
    pub(super) fn perl(letter: char) -> Option<Self> {
        let mut set = Self::posix(match letter {
            'd' | 'D' => "digit",
            'w' | 'W' => "word",
            's' | 'S' => return Some(Self::of(&[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')]).negated_if(letter == 'S')),
            _ => return None,
        })?;
        if letter.is_ascii_uppercase() {
            set.negate();
        }
        Some(set)
    }

    /// A class of POSIX by its name, as in `[[:alpha:]]`.
    pub(super) fn posix(name: &str) -> Option<Self> {
        let ranges: &[(char, char)] = match name {
            "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
            "alpha" => &[('A', 'Z'), ('a', 'z')],
            "ascii" => &[('\0', LAST_ASCII)],
            "blank" => &[('\t', '\t'), (' ', ' ')],
            "cntrl" => &[('\0', '\x1f'), (LAST_ASCII, LAST_ASCII)],
            "digit" => &[('0', '9')],
            "graph" => &[('!', '~')],
            "lower" => &[('a', 'z')],
            "print" => &[(' ', '~')],
            "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
            "space" => &[('\t', '\r'), (' ', ' ')],
            "upper" => &[('A', 'Z')],
            "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
            "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
            _ => return None,
        };
        Some(Self::of(ranges))
    }

    /// A category or script of Unicode by its name, as in `\p{Greek}`.
    pub(super) fn unicode(name: &str) -> Option<Self> {
        if name == "Any" {
            return Some(Self::all());
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_=:".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        match regex_syntax::parse(&format!("\\p{{{name}}}")).ok()?.into_kind() {
            HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => Some(Self(class)),
            // A class of one character.
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                Some(Self::of(&text.chars().map(|c| (c, c)).collect::<Vec<_>>()))
            }
            _ => None,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.union(&other.0);
    }

    pub(super) fn negate(&mut self) {
        self.0.negate();
    }

    pub(super) fn negated_if(mut self, is_negated: bool) -> Self {
        if is_negated {
            self.negate();
        }
        self
    }

    /// With both cases of each letter. ASCII stays ASCII: the Kelvin sign is a k for the RE2 that reads characters, and
    /// not for the one that reads bytes.
    ///
    /// # Errors
    /// If it names too many characters beyond ASCII.
    pub(super) fn folded(&self) -> Result<Self, String> {
        let mut folded = Self::empty();
        for part in [Self::of(&[('\0', LAST_ASCII)]), Self::of(&[(FIRST_OTHER, char::MAX)])] {
            let mut found = self.clone();
            found.0.intersect(&part.0);
            // Folding goes through each character.
            if found.0 != part.0 {
                found.others()?;
                found.0.try_case_fold_simple().map_err(|error| error.to_string())?;
                found.0.intersect(&part.0);
            }
            folded.add(&found);
        }
        Ok(folded)
    }

    /// The characters beyond ASCII.
    ///
    /// # Errors
    /// If they are too many, and not all.
    pub(super) fn others(&self) -> Result<Others, String> {
        let mut others = self.0.clone();
        let all = ClassUnicode::new([ClassUnicodeRange::new(FIRST_OTHER, char::MAX)]);
        others.intersect(&all);
        if others == all {
            return Ok(Others::All);
        }
        let count = others
            .iter()
            .fold(0, |count: usize, range| count.saturating_add(range.len()));
        if count > MOST_OTHERS {
            return Err(format!("at most {MOST_OTHERS} characters beyond ASCII, or all of them"));
        }
        Ok(Others::Some(
            others.iter().flat_map(|range| range.start()..=range.end()).collect(),
        ))
    }

    /// The ranges of ASCII.
    pub(super) fn ascii(&self) -> Vec<(u8, u8)> {
        let byte = |c: char| u8::try_from(c.min(LAST_ASCII)).unwrap_or(0x7f);
        let ranges = self.0.iter().filter(|range| range.start() <= LAST_ASCII);
        ranges.map(|range| (byte(range.start()), byte(range.end()))).collect()
    }
}
