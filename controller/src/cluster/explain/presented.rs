//! The tokens that a person has: bare, in a line of a header, or in the answer of a server.

use crate::tools::token::token_argument::{TokenArgument, bare, jar_row};
use limpet_core::token::{CarrierMode, is_token};

/// A token, and the header that a client would send it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PresentedToken {
    pub(super) token: String,
    /// The name of its cookie, header or parameter, if it is known.
    pub(super) name: Option<String>,
    /// How it travelled, as far as the text shows it: a cookie of mode rewrite looks like one of the filter's own.
    pub(super) mode: Option<CarrierMode>,
    /// The header of a request, in lower case, and its value; `None` if the text is only a token.
    pub(super) header: Option<(String, String)>,
}

impl PresentedToken {
    /// Reads what `limpet token inspect` reads.
    pub(super) fn tokens(text: &str) -> Vec<Self> {
        TokenArgument::parse(text).into_iter().map(Self::new).collect()
    }

    fn new(TokenArgument { token, name, mode }: TokenArgument<'_>) -> Self {
        let header = name.zip(mode).map(|(name, mode)| match mode {
            CarrierMode::Cookie | CarrierMode::CookieRewrite => ("cookie".to_owned(), format!("{name}={token}")),
            CarrierMode::CookiePrefix => ("cookie".to_owned(), format!("{name}={token}~")),
            CarrierMode::Header => (name.to_ascii_lowercase(), token.to_owned()),
            CarrierMode::HeaderPrefix => (name.to_ascii_lowercase(), format!("{token}~")),
            CarrierMode::Query => (":path".to_owned(), format!("/?{name}={token}")),
        });
        Self {
            token: token.to_owned(),
            name: name.map(str::to_owned),
            mode,
            header,
        }
    }

    /// All tokens of a line `Cookie: ...` or `Set-Cookie: ...`, or of its value, taken as a `Cookie`'s; or of a row of
    /// a cookie jar. What is no token is left out, unless `is_expected` says that its name is a session's.
    pub(super) fn cookies(line: &str, is_expected: impl Fn(&str) -> bool) -> Vec<Self> {
        let is_one = |found: &Self| is_token(found.token.as_bytes()) || found.name.as_deref().is_some_and(&is_expected);
        let line = bare(line);
        if jar_row(line).is_some() {
            return Self::tokens(line).into_iter().filter(is_one).collect();
        }
        let (field, value) = match line.split_once(':') {
            Some((field, value)) if is_cookie_field(field) => (field.trim(), value.trim()),
            _ => ("cookie", line),
        };
        // In a Set-Cookie, attributes follow the first pair.
        let most = if field.eq_ignore_ascii_case("set-cookie") {
            1
        } else {
            usize::MAX
        };
        let pairs = value
            .split(';')
            .take(most)
            .map(str::trim)
            .filter(|pair| pair.contains('='));
        let all = pairs.flat_map(|pair| Self::tokens(&format!("cookie: {pair}")));
        all.filter(is_one).collect()
    }

    /// The tokens that an answer gives: in its cookies, in other headers, and in the URL of a redirect.
    pub(super) fn answered<'h>(
        headers: impl Iterator<Item = (&'h str, &'h str)>,
        is_expected: impl Fn(&str) -> bool,
    ) -> Vec<Self> {
        let mut all = Vec::new();
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("set-cookie") {
                all.extend(Self::cookies(&format!("set-cookie: {value}"), &is_expected));
                continue;
            }
            for found in Self::tokens(&format!("{name}: {value}")) {
                if is_token(found.token.as_bytes()) && !all.contains(&found) {
                    all.push(found);
                }
            }
        }
        all
    }

    /// The carrier, for people.
    pub(super) fn words(&self) -> String {
        let kind = match self.mode {
            Some(CarrierMode::Cookie | CarrierMode::CookiePrefix | CarrierMode::CookieRewrite) => "cookie",
            Some(CarrierMode::Header | CarrierMode::HeaderPrefix) => "header",
            Some(CarrierMode::Query) => "query",
            None => "token",
        };
        match &self.name {
            Some(name) => format!("{kind} {name}"),
            None => kind.to_owned(),
        }
    }
}

fn is_cookie_field(field: &str) -> bool {
    let field = field.trim();
    ["cookie", "set-cookie"]
        .iter()
        .any(|known| field.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn names(all: &[PresentedToken]) -> Vec<String> {
        all.iter().map(PresentedToken::words).collect()
    }

    #[test]
    fn every_token_of_a_cookie_line_is_found() {
        let none = |_: &str| false;
        let line = format!("a=1; s={TOKEN}; t=\"{TOKEN}~x\"");
        for prefix in ["", "Cookie: ", "cookie:", "> Cookie: "] {
            let found = PresentedToken::cookies(&format!("{prefix}{line}"), none);
            assert_eq!(names(&found), ["cookie s", "cookie t"], "{prefix}");
            let header = |value: String| Some(("cookie".to_owned(), value));
            assert_eq!(found[0].header, header(format!("s={TOKEN}")));
            assert_eq!(found[1].header, header(format!("t={TOKEN}~")));
        }
        let row = format!("#HttpOnly_shop.example\tFALSE\t/\tFALSE\t0\ts\t{TOKEN}");
        assert_eq!(names(&PresentedToken::cookies(&row, none)), ["cookie s"]);
        assert!(PresentedToken::cookies(&row.replace(TOKEN, "cut"), none).is_empty());
        let set = PresentedToken::cookies(&format!("Set-Cookie: s={TOKEN}; Path=/; t={TOKEN}"), none);
        assert_eq!(names(&set), ["cookie s"]);
        assert!(PresentedToken::cookies("a=1; b", none).is_empty());
        // What has the name of a session is told of.
        assert_eq!(
            names(&PresentedToken::cookies("a=1; s=cut", |name| name == "s")),
            ["cookie s"]
        );
    }

    #[test]
    fn an_answer_gives_tokens_in_cookies_headers_and_redirects() {
        let (cookie, location) = (format!("s={TOKEN}; Path=/"), format!("/next?q={TOKEN}"));
        let headers = [
            ("date", "Mon, 23 Nov 2026 06:00:00 GMT"),
            ("set-cookie", cookie.as_str()),
            ("set-cookie", "other=1"),
            ("x-session", TOKEN),
            ("location", location.as_str()),
        ];
        let found = PresentedToken::answered(headers.into_iter(), |_| false);
        assert_eq!(names(&found), ["cookie s", "header x-session", "query q"]);
        let path = format!("/?q={TOKEN}");
        assert_eq!(found[2].header, Some((":path".to_owned(), path)));
    }
}
