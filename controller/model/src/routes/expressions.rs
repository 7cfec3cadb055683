//! Regular expressions. Envoy uses RE2 and refuses a whole route table for one invalid expression. So only expressions
//! that both RE2 and the parser of the `regex` crate read are accepted.

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    self, Ast, ClassSetItem, ClassUnicodeKind, Flag, FlagsItemKind, HexLiteralKind, LiteralKind, RepetitionKind,
    RepetitionRange, Visitor,
};

use crate::problem::Problem;

/// The maximum number of repetitions in RE2.
const MOST_REPETITIONS: u64 = 1000;
/// The maximum nesting that the parser accepts.
const DEPTH: u32 = 100;

/// Checks that Envoy accepts the expression.
pub(super) fn regex(field: &str, text: &str) -> Result<String, Problem> {
    check(text).map(|()| text.to_owned()).map_err(|message| Problem {
        field: field.to_owned(),
        message: format!("expected a regular expression of RE2: {message}"),
    })
}

fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let parsed = ParserBuilder::new().nest_limit(DEPTH).build().parse(text);
    let ast = parsed.map_err(|error| error.kind().to_string())?;
    ast::visit(&ast, Re2::default())?;
    // Finds what the parser alone does not check, such as the names of Unicode classes.
    regex::Regex::new(text).map(drop).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        other => other.to_string().lines().last().unwrap_or_default().to_owned(),
    })
}

/// Finds syntax that RE2 does not have.
#[derive(Default)]
struct Re2 {
    /// The maximum of each repetition around the current node.
    repeated: Vec<u64>,
}

impl Visitor for Re2 {
    type Output = ();
    type Err = String;

    fn finish(self) -> Result<(), String> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::Flags(flags) => flags.flags.items.iter().try_for_each(flag),
            Ast::Group(group) => match &group.kind {
                ast::GroupKind::NonCapturing(flags) => flags.items.iter().try_for_each(flag),
                _ => Ok(()),
            },
            Ast::Repetition(repetition) => self.repetition(repetition),
            Ast::Literal(found) => literal(found),
            Ast::ClassUnicode(class) => unicode(&class.kind),
            _ => Ok(()),
        }
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), String> {
        if let Ast::Repetition(_) = ast {
            self.repeated.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            ClassSetItem::Literal(found) => literal(found),
            ClassSetItem::Range(range) => literal(&range.start).and_then(|()| literal(&range.end)),
            ClassSetItem::Unicode(class) => unicode(&class.kind),
            _ => Ok(()),
        }
    }
}

impl Re2 {
    fn repetition(&mut self, repetition: &ast::Repetition) -> Result<(), String> {
        if let Ast::Repetition(_) = *repetition.ast {
            return Err("no repetition of a repetition, as in a**".to_owned());
        }
        let most = match repetition.op.kind {
            RepetitionKind::Range(
                RepetitionRange::Exactly(most) | RepetitionRange::AtLeast(most) | RepetitionRange::Bounded(_, most),
            ) => most.max(1),
            _ => 1,
        };
        self.repeated.push(most.into());
        let times = self
            .repeated
            .iter()
            .fold(1, |times: u64, most| times.saturating_mul(*most));
        if times > MOST_REPETITIONS {
            return Err(format!("at most {MOST_REPETITIONS} repetitions, found {times}"));
        }
        Ok(())
    }
}

fn flag(item: &ast::FlagsItem) -> Result<(), String> {
    match item.kind {
        FlagsItemKind::Flag(Flag::Unicode | Flag::IgnoreWhitespace | Flag::CRLF) => {
            Err("only the flags i, m, s and U are supported".to_owned())
        }
        _ => Ok(()),
    }
}

/// Envoy's RE2 reads bytes, so numbers above 255 are invalid.
fn literal(literal: &ast::Literal) -> Result<(), String> {
    match literal.kind {
        LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
        | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong) => {
            Err(r"\u and \U are not supported".to_owned())
        }
        LiteralKind::HexBrace(HexLiteralKind::X) if u32::from(literal.c) > 0xff => {
            Err(r"the largest number is \x{FF}".to_owned())
        }
        _ => Ok(()),
    }
}

fn unicode(kind: &ClassUnicodeKind) -> Result<(), String> {
    match kind {
        ClassUnicodeKind::NamedValue { .. } => Err("Unicode properties with values are not supported".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Envoy accepts and refuses was determined with `envoy --mode validate`.
    #[test]
    fn what_envoy_takes_is_taken() {
        let taken = [
            "/shop/.*",
            "[0-9]+",
            "a|b|",
            "(?i)shop",
            "(?P<name>a)",
            "(?<name>a)",
            "(?:a)",
            r"\d{3}-\w+\b",
            "[[:alpha:]]+",
            r"\p{Greek}+",
            r"\x{FF}",
            "a{1000}",
            "(a{10}){100}",
            "(a*)*",
            "^/x$",
            r"\A/x\z",
            "[^/]+",
            "a??",
            r"[\d\-x]",
            r"\%a",
            "[a&&b]",
            "[a[bc]]",
        ];
        for text in taken {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_envoy_refuses_is_refused() {
        let refused = [
            "",
            "((",
            "[",
            "a**",
            "a{1001}",
            "(a{100}){100}",
            "(?x)a",
            "(?R)a",
            "(?u)a",
            r"\u0041",
            r"\x{263A}",
            r"\p{scx=Greek}",
            r"\p{Nothing}",
            "(?=a)",
            r"(a)\1",
        ];
        for text in refused {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
