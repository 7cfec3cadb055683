//! Translates what Rust's parser reads, and refuses what RE2 (google/re2, `doc/syntax.txt`) does not read or reads
//! otherwise.

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    Assertion, AssertionKind, Ast, ClassBracketed, ClassSet, ClassSetItem, ClassUnicode, ClassUnicodeKind, ErrorKind,
    Flag, Flags, FlagsItemKind, GroupKind, HexLiteralKind, Literal, LiteralKind, Repetition, RepetitionKind,
    RepetitionRange, Span,
};
use regex_syntax::hir;

use super::class;
use super::part::ExpressionPart;
use super::{over_limit, unreadable};

/// # Errors
/// If RE2 and Rust do not read it alike, or by Limpet's limits; the message says which.
pub(super) fn translated(text: &str) -> Result<ExpressionPart, String> {
    let parsed = ParserBuilder::new().octal(true).build().parse(text);
    let mut translator = Translator {
        text,
        ignores_case: false,
        multi_line: false,
        dot_takes_newline: false,
    };
    match parsed {
        Ok(ast) => translator.part(&ast),
        Err(error) => Err(match error.kind() {
            ErrorKind::NestLimitExceeded(most) => over_limit(&format!(
                "expected at most {most} groups and other parts within each other"
            )),
            kind => translator.unreadable(&kind.to_string(), error.span()),
        }),
    }
}

struct Translator<'t> {
    text: &'t str,
    ignores_case: bool,
    multi_line: bool,
    dot_takes_newline: bool,
}

impl Translator<'_> {
    fn written(&self, span: &Span) -> &str {
        let (start, end) = (span.start.offset, span.end.offset);
        // A missing part has no length.
        let end = if start == end { self.text.len() } else { end };
        self.text.get(start..end).unwrap_or_default()
    }

    fn unreadable(&self, expected: &str, found: &Span) -> String {
        unreadable(&format!("{expected}, found {}", self.written(found)))
    }

    fn part(&mut self, ast: &Ast) -> Result<ExpressionPart, String> {
        match ast {
            Ast::Empty(_) => Ok(ExpressionPart::empty()),
            Ast::Flags(set) => self.set(&set.flags).map(|()| ExpressionPart::empty()),
            Ast::Literal(literal) if self.ignores_case => self.class(&self.range(literal, literal)?, &literal.span),
            Ast::Literal(literal) => self.character(literal).map(ExpressionPart::character),
            Ast::Dot(span) => {
                let newline: &[_] = if self.dot_takes_newline { &[] } else { &[('\n', '\n')] };
                self.class(&class::negated_if(class::of(newline), true), span)
            }
            Ast::Assertion(assertion) => self.assertion(assertion),
            Ast::ClassUnicode(unicode) => self.class(&self.unicode(unicode)?, &unicode.span),
            Ast::ClassPerl(perl) => self.class(&class::perl(perl), &perl.span),
            Ast::ClassBracketed(class) => self.class(&self.bracketed(class)?, &class.span),
            Ast::Repetition(repetition) => self.repetition(repetition),
            Ast::Group(group) => {
                let outer = (self.ignores_case, self.multi_line, self.dot_takes_newline);
                match &group.kind {
                    GroupKind::NonCapturing(flags) => self.set(flags)?,
                    GroupKind::CaptureName { name, .. } if name.name.contains(['.', '[', ']']) => {
                        let expected = "expected letters, digits and _ in the name of a group";
                        return Err(self.unreadable(expected, &name.span));
                    }
                    _ => {}
                }
                let part = self.part(&group.ast)?;
                (self.ignores_case, self.multi_line, self.dot_takes_newline) = outer;
                Ok(part)
            }
            Ast::Alternation(alternation) => self.parts(&alternation.asts).map(ExpressionPart::alternatives),
            Ast::Concat(concat) => self.parts(&concat.asts).map(ExpressionPart::concat),
        }
    }

    fn parts(&mut self, asts: &[Ast]) -> Result<Vec<ExpressionPart>, String> {
        asts.iter().map(|ast| self.part(ast)).collect()
    }

    /// `U` means nothing where whole values are matched.
    fn set(&mut self, flags: &Flags) -> Result<(), String> {
        let mut on = true;
        for item in &flags.items {
            match item.kind {
                FlagsItemKind::Negation => on = false,
                FlagsItemKind::Flag(Flag::CaseInsensitive) => self.ignores_case = on,
                FlagsItemKind::Flag(Flag::MultiLine) => self.multi_line = on,
                FlagsItemKind::Flag(Flag::DotMatchesNewLine) => self.dot_takes_newline = on,
                FlagsItemKind::Flag(Flag::SwapGreed) => {}
                FlagsItemKind::Flag(_) => return Err(self.unreadable("expected the flags i, m, s and U", &flags.span)),
            }
        }
        Ok(())
    }

    /// One octal digit but 0 would be a reference to a group.
    fn character(&self, literal: &Literal) -> Result<char, String> {
        let is_re2 = match &literal.kind {
            LiteralKind::Octal => literal.c == '\0' || self.written(&literal.span).len() > 2,
            LiteralKind::HexFixed(kind) | LiteralKind::HexBrace(kind) => *kind == HexLiteralKind::X,
            _ => true,
        };
        let error = || self.unreadable("unrecognized escape sequence", &literal.span);
        is_re2.then_some(literal.c).ok_or_else(error)
    }

    fn assertion(&self, assertion: &Assertion) -> Result<ExpressionPart, String> {
        Ok(ExpressionPart::assertion(match assertion.kind {
            AssertionKind::StartLine if self.multi_line => "(?m:^)",
            AssertionKind::EndLine if self.multi_line => "(?m:$)",
            AssertionKind::StartLine | AssertionKind::StartText => r"\A",
            AssertionKind::EndLine | AssertionKind::EndText => r"\z",
            // RE2's word characters are ASCII.
            AssertionKind::WordBoundary => r"\b",
            AssertionKind::NotWordBoundary => r"\B",
            // A character and text for RE2.
            _ => return Err(self.unreadable("unrecognized escape sequence", &assertion.span)),
        }))
    }

    fn repetition(&mut self, repetition: &Repetition) -> Result<ExpressionPart, String> {
        if let Ast::Repetition(_) = &*repetition.ast {
            return Err(self.unreadable("expected no repetition of a repetition", &repetition.op.span));
        }
        let (least, most, operator) = match repetition.op.kind {
            RepetitionKind::ZeroOrOne => (0, Some(1), "?".to_owned()),
            RepetitionKind::ZeroOrMore => (0, None, "*".to_owned()),
            RepetitionKind::OneOrMore => (1, None, "+".to_owned()),
            RepetitionKind::Range(RepetitionRange::Exactly(count)) => (count, Some(count), format!("{{{count}}}")),
            RepetitionKind::Range(RepetitionRange::AtLeast(least)) => (least, None, format!("{{{least},}}")),
            RepetitionKind::Range(RepetitionRange::Bounded(least, most)) => {
                (least, Some(most), format!("{{{least},{most}}}"))
            }
        };
        // Any other text in braces is text for RE2.
        if !self.written(&repetition.op.span).starts_with(&operator) {
            let expected = format!(r"expected \{{ for the character, or {operator}");
            return Err(self.unreadable(&expected, &repetition.op.span));
        }
        Ok(self.part(&repetition.ast)?.repeated(least, most))
    }

    fn class(&self, set: &hir::ClassUnicode, span: &Span) -> Result<ExpressionPart, String> {
        class::part(set, self.written(span))
    }

    fn with_case(&self, set: hir::ClassUnicode, span: &Span) -> Result<hir::ClassUnicode, String> {
        if self.ignores_case {
            class::folded(&set, self.written(span))
        } else {
            Ok(set)
        }
    }

    fn range(&self, first: &Literal, last: &Literal) -> Result<hir::ClassUnicode, String> {
        let set = class::of(&[(self.character(first)?, self.character(last)?)]);
        self.with_case(set, &Span::new(first.span.start, last.span.end))
    }

    /// Folding a negated class would fold the wrong side.
    fn unicode(&self, unicode: &ClassUnicode) -> Result<hir::ClassUnicode, String> {
        let (name, is_opposite) = match &unicode.kind {
            ClassUnicodeKind::OneLetter(letter) => (letter.to_string(), false),
            ClassUnicodeKind::Named(name) => (name.trim_start_matches('^').to_owned(), name.starts_with('^')),
            ClassUnicodeKind::NamedValue { .. } => (String::new(), false),
        };
        let set = class::named(&format!(r"\p{{{name}}}")).ok_or_else(|| {
            let expected = "expected a general category, such as Lu, or a script, such as Greek";
            self.unreadable(expected, &unicode.span)
        })?;
        class::others(&set, self.written(&unicode.span))?;
        let set = self.with_case(set, &unicode.span)?;
        Ok(class::negated_if(set, unicode.negated != is_opposite))
    }

    fn bracketed(&self, class: &ClassBracketed) -> Result<hir::ClassUnicode, String> {
        let ClassSet::Item(item) = &class.kind else {
            let expected = r"expected \&, \~ and \- for these characters";
            return Err(self.unreadable(expected, &class.span));
        };
        let items: &[ClassSetItem] = match item {
            ClassSetItem::Union(union) => &union.items,
            only => std::slice::from_ref(only),
        };
        // Behind the first `-` or `]` of a class, `-` is no exception for RE2.
        if let [ClassSetItem::Literal(_), ClassSetItem::Literal(second), _, ..] = items
            && (&second.kind, second.c) == (&LiteralKind::Verbatim, '-')
        {
            return Err(self.unreadable(r"expected \- for the character", &class.span));
        }
        let mut set = hir::ClassUnicode::empty();
        for item in items {
            self.add(&mut set, item)?;
        }
        Ok(class::negated_if(set, class.negated))
    }

    fn add(&self, set: &mut hir::ClassUnicode, item: &ClassSetItem) -> Result<(), String> {
        let span = item.span();
        set.union(&match item {
            ClassSetItem::Empty(_) => return Ok(()),
            ClassSetItem::Literal(literal) => self.range(literal, literal)?,
            ClassSetItem::Range(range) => self.range(&range.start, &range.end)?,
            ClassSetItem::Ascii(posix) => {
                let positive = self.written(span).replace('^', "");
                let set = class::named(&format!("[{positive}]")).unwrap_or_else(hir::ClassUnicode::empty);
                class::negated_if(self.with_case(set, span)?, posix.negated)
            }
            ClassSetItem::Unicode(unicode) => self.unicode(unicode)?,
            ClassSetItem::Perl(perl) => class::perl(perl),
            ClassSetItem::Bracketed(_) | ClassSetItem::Union(_) => {
                return Err(self.unreadable(r"expected \[ for the character, or a class such as [:alpha:]", span));
            }
        });
        Ok(())
    }
}
