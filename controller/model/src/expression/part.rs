//! Parts of an expression in the small syntax: escaped characters, classes of ranges, groups without capture,
//! alternatives, repetitions and assertions. Flags are only around a single `.`, `^` or `$`.
//!
//! Sizes are upper bounds, for the RE2 that reads characters, whose programs are larger.

struct ExpressionPiece {
    text: String,
    size: u32,
    kind: PieceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    /// An operator behind its text repeats all of it.
    Atom,
    TextStart,
    TextEnd,
    /// It takes no text.
    Assertion,
    /// Its text needs a group beside others.
    Alternatives,
    Other,
}

/// Alternatives, each of pieces in a row.
pub(super) struct ExpressionPart(Vec<Vec<ExpressionPiece>>);

impl ExpressionPart {
    fn of(text: String, size: u32, kind: PieceKind) -> Self {
        Self(vec![vec![ExpressionPiece { text, size, kind }]])
    }

    pub(super) fn empty() -> Self {
        Self(vec![Vec::new()])
    }

    fn is_empty(&self) -> bool {
        matches!(self.0.as_slice(), [only] if only.is_empty())
    }

    /// Matches nothing at all.
    pub(super) fn never() -> Self {
        Self::of(r"(?:\b\B)".to_owned(), 2, PieceKind::Assertion)
    }

    pub(super) fn assertion(text: &str) -> Self {
        let kind = match text {
            r"\A" => PieceKind::TextStart,
            r"\z" => PieceKind::TextEnd,
            _ => PieceKind::Assertion,
        };
        Self::of(text.to_owned(), 1, kind)
    }

    /// A character of several bytes is several for the RE2 that reads bytes.
    pub(super) fn character(character: char) -> Self {
        let kind = if character.is_ascii() {
            PieceKind::Atom
        } else {
            PieceKind::Other
        };
        Self::of(literal(character), count(character.len_utf8()), kind)
    }

    pub(super) fn class(text: String, ranges: usize) -> Self {
        Self::of(text, count(ranges), PieceKind::Atom)
    }

    pub(super) fn alternatives(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().flat_map(|part| part.0).collect())
    }

    pub(super) fn concat(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts: Vec<Self> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if parts.len() == 1 {
            return parts.swap_remove(0);
        }
        let mut pieces = Vec::new();
        for part in &mut parts {
            match part.0.as_mut_slice() {
                [only] => pieces.append(only),
                _ => pieces.push(ExpressionPiece {
                    text: part.text(),
                    size: part.size(),
                    kind: PieceKind::Alternatives,
                }),
            }
        }
        Self(vec![pieces])
    }

    /// RE2 writes repetitions out: `x{2,4}` is `xx(?:x(?:x)?)?`, and `x{2,}` is `xx+`.
    pub(super) fn repeated(self, least: u32, most: Option<u32>) -> Self {
        let kind = match self.0.as_slice() {
            [only] if only.len() == 1 => only.first().map_or(PieceKind::Other, |piece| piece.kind),
            _ => PieceKind::Other,
        };
        let is_assertion = matches!(kind, PieceKind::TextStart | PieceKind::TextEnd | PieceKind::Assertion);
        // An assertion that need not hold does not matter, and one holds twice as it holds once.
        if most == Some(0) || (least == 0 && is_assertion) {
            return Self::empty();
        }
        if self.is_empty() || is_assertion || (least, most) == (1, Some(1)) {
            return self;
        }
        let text = if kind == PieceKind::Atom {
            self.text()
        } else {
            group(&self.text())
        };
        let operator = match (least, most) {
            (0, None) => "*".to_owned(),
            (1, None) => "+".to_owned(),
            (0, Some(1)) => "?".to_owned(),
            (least, None) => format!("{{{least},}}"),
            (least, Some(most)) if least == most => format!("{{{least}}}"),
            (least, Some(most)) => format!("{{{least},{most}}}"),
        };
        let jumps = match most {
            // As many as two where the repeated may be empty, which are copied behind it.
            None => 4,
            Some(most) => most.saturating_sub(least).saturating_mul(2),
        };
        let copies = self.size().saturating_mul(most.unwrap_or(least).max(1));
        Self::of(text + &operator, copies.saturating_add(jumps), PieceKind::Other)
    }

    /// Without anchors that always hold, because whole values are matched.
    pub(super) fn without_outer_anchors(mut self) -> Self {
        for branch in &mut self.0 {
            let is_start = |piece: &&ExpressionPiece| piece.kind == PieceKind::TextStart;
            branch.drain(..branch.iter().take_while(is_start).count());
            while branch.pop_if(|piece| piece.kind == PieceKind::TextEnd).is_some() {}
        }
        self
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (index, branch) in self.0.iter().enumerate() {
            text.push_str(if index > 0 { "|" } else { "" });
            match branch.as_slice() {
                [] => text.push_str("(?:)"),
                [only] => text.push_str(&only.text),
                pieces => text.extend(pieces.iter().flat_map(|piece| match piece.kind {
                    PieceKind::Alternatives => ["(?:", piece.text.as_str(), ")"],
                    _ => ["", piece.text.as_str(), ""],
                })),
            }
        }
        text
    }

    pub(super) fn size(&self) -> u32 {
        let branches = self
            .0
            .iter()
            .map(|branch| sum(branch.iter().map(|piece| piece.size)).max(1));
        sum(branches).saturating_add(if self.0.len() > 1 { count(self.0.len()) } else { 0 })
    }
}

pub(super) fn group(text: &str) -> String {
    format!("(?:{text})")
}

pub(super) fn literal(character: char) -> String {
    escaped(character, r"\.+*?()|[]{}^$")
}

/// RE2 reads other than ASCII as the same bytes in either encoding, but not as its number.
pub(super) fn escaped(character: char, syntax: &str) -> String {
    if syntax.contains(character) {
        format!("\\{character}")
    } else if character.is_ascii_control() {
        format!("\\x{{{:02X}}}", u32::from(character))
    } else {
        character.to_string()
    }
}

fn sum(sizes: impl Iterator<Item = u32>) -> u32 {
    sizes.fold(0, u32::saturating_add)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
