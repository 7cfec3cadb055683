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
/// The maximum of all repetitions of an expression together: RE2 writes each of them out.
const MOST_TOGETHER: u64 = 2000;
/// The names of Unicode classes that RE2 has: categories, and the scripts of living languages. The `regex` crate knows
/// many more, and reads them in any case.
#[rustfmt::skip]
const CLASSES: [&str; 64] = [
    "Any", "Cc", "Cf", "Co", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf",
    "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs", "Arabic", "Armenian", "Bengali", "Bopomofo", "Cherokee",
    "Common", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul",
    "Hebrew", "Hiragana", "Inherited", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian",
    "Myanmar", "Oriya", "Sinhala", "Syriac", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan", "Yi",
];
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
    let visitor = Re2 {
        text,
        repeated: Vec::new(),
        together: 0,
    };
    ast::visit(&ast, visitor)?;
    // Finds what the parser alone does not check, such as the names of Unicode classes.
    regex::Regex::new(text).map(drop).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        other => other.to_string().lines().last().unwrap_or_default().to_owned(),
    })
}

/// Finds syntax that RE2 does not have.
struct Re2<'t> {
    text: &'t str,
    /// The maximum of each repetition around the current node.
    repeated: Vec<u64>,
    /// The repetitions so far, each as often as those around it repeat it.
    together: u64,
}

impl Visitor for Re2<'_> {
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
                ast::GroupKind::CaptureName { name, .. } => group_name(&name.name),
                ast::GroupKind::CaptureIndex(_) => Ok(()),
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
            // For RE2 it is a class of POSIX, whose name it does not know.
            ClassSetItem::Bracketed(class) if self.source(&class.span).starts_with("[:") => {
                Err(format!("there is no class {}", self.source(&class.span)))
            }
            _ => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, op: &ast::ClassSetBinaryOp) -> Result<(), String> {
        match op.kind {
            // For RE2 it is a range, as in [z--a].
            ast::ClassSetBinaryOpKind::Difference => Err("-- in a class is not supported".to_owned()),
            _ => Ok(()),
        }
    }
}

impl Re2<'_> {
    fn source(&self, span: &ast::Span) -> &str {
        self.text.get(span.start.offset..span.end.offset).unwrap_or_default()
    }

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
        if most > 1 {
            self.together = self.together.saturating_add(times);
        }
        if self.together > MOST_TOGETHER {
            return Err(format!("at most {MOST_TOGETHER} repetitions together"));
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
        ClassUnicodeKind::OneLetter(letter) if "CLMNPSZ".contains(*letter) => Ok(()),
        ClassUnicodeKind::Named(name) if CLASSES.contains(&name.as_str()) => Ok(()),
        _ => Err("expected a general category, such as Lu, or a script, such as Greek, in \\p".to_owned()),
    }
}

fn group_name(name: &str) -> Result<(), String> {
    if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        Ok(())
    } else {
        Err(format!(
            "expected letters, digits and _ in the name of a group, found {name:?}"
        ))
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
            r"\pL\p{Lu}\PN\p{Any}",
            "[:/]+",
            "[^[:^space:]]",
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
            r"\p{Letter}",
            r"\p{greek}",
            r"\p{Alphabetic}",
            r"\p{ASCII}",
            r"\p{any}",
            r"\p{LC}",
            r"\p{Cn}",
            r"\pl",
            "(?P<a.b>x)",
            "(?P<a[0]>x)",
            "(?P<é>x)",
            "[[:foo:]]",
            "[z--a]",
            &"a{0,1000}".repeat(100),
        ];
        for text in refused {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
