//! A token as a person has it: bare, or in the line that it was copied with.

use limpet_core::token::{CarrierMode, is_token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenArgument<'a> {
    pub(crate) token: &'a str,
    /// The name of the cookie or header, if the text has it.
    pub(crate) name: Option<&'a str>,
    /// How the token travelled, if the text shows it.
    pub(crate) mode: Option<CarrierMode>,
}

impl<'a> TokenArgument<'a> {
    /// Reads a value, `name=value`, `Set-Cookie: name=value; ...`, `Cookie: ...`, `name: value` or a URL. No token
    /// contains `=`, `:`, `,` or `~`. A cookie without `~` may also be one of mode rewrite.
    /// Also reads such a line with what tools put around it, and a row of a cookie jar.
    ///
    /// A line may have several tokens. What has none is taken for one, so there is at least one.
    pub(crate) fn parse(text: &'a str) -> Vec<Self> {
        let text = bare(text);
        if let Some((name, value)) = jar_row(text) {
            let (token, mode) = without_value(value, CarrierMode::Cookie, CarrierMode::CookiePrefix);
            return vec![Self {
                token,
                name: Some(name),
                mode: Some(mode),
            }];
        }
        let in_url = Self::in_url(text);
        if !in_url.is_empty() {
            return in_url;
        }
        let (field, value) = match text.split_once(':') {
            Some((field, value)) => (Some(field.trim()), value.trim()),
            None => (None, text),
        };
        let is = |name| field.is_some_and(|field: &str| field.eq_ignore_ascii_case(name));
        if let Some(name) = field
            && !is("set-cookie")
            && !is("cookie")
        {
            // Several fields of a name come as one, and a value of the application may have commas.
            let read = |value: &'a str| {
                let (token, mode) = without_value(value, CarrierMode::Header, CarrierMode::HeaderPrefix);
                Self {
                    token,
                    name: Some(name),
                    mode: Some(mode),
                }
            };
            return tokens_or(value.split(',').map(|value| read(value.trim())), || read(value));
        }
        let first = || Self::pair(value.split(';').next().unwrap_or_default());
        // A client sends all its cookies in one line.
        tokens_or(value.split(';').map(Self::pair).filter(|_| is("cookie")), first)
    }

    /// The tokens in the query of a URL or path, or of the first line of a request.
    fn in_url(text: &'a str) -> Vec<Self> {
        let (_, query) = text.split_once('?').unwrap_or_default();
        let query = query.split(|c: char| c == '#' || c.is_whitespace()).next();
        let parameters = query.unwrap_or_default().split('&');
        let named = parameters.filter_map(|parameter| parameter.split_once('='));
        let tokens = named.filter(|(_, value)| is_token(value.as_bytes()));
        let read = |(name, token)| Self {
            token,
            name: Some(name),
            mode: Some(CarrierMode::Query),
        };
        tokens.map(read).collect()
    }

    /// Reads a value or `name=value`.
    fn pair(text: &'a str) -> Self {
        let pair = text.trim();
        match pair.split_once('=') {
            Some((name, value)) => {
                let (token, mode) = without_value(value.trim(), CarrierMode::Cookie, CarrierMode::CookiePrefix);
                Self {
                    token,
                    name: Some(name.trim()),
                    mode: Some(mode),
                }
            }
            None => Self {
                token: unquoted(pair),
                name: None,
                mode: None,
            },
        }
    }
}

/// Those that have the form of a token, or if there are none, another one.
fn tokens_or<'a>(
    found: impl Iterator<Item = TokenArgument<'a>>,
    other: impl FnOnce() -> TokenArgument<'a>,
) -> Vec<TokenArgument<'a>> {
    let tokens: Vec<_> = found.filter(|found| is_token(found.token.as_bytes())).collect();
    if tokens.is_empty() { vec![other()] } else { tokens }
}

/// The token, and its mode: `in_front` if an application's value follows it.
fn without_value(value: &str, alone: CarrierMode, in_front: CarrierMode) -> (&str, CarrierMode) {
    let value = unquoted(value);
    match value.split_once('~') {
        Some((token, _)) => (token, in_front),
        None => (value, alone),
    }
}

/// A line without what tools put around it: `< ` and `> ` of `curl -v`, and the quotes of a shell or of JSON.
pub(crate) fn bare(text: &str) -> &str {
    let text = text.trim();
    let line = text.strip_prefix("< ").or_else(|| text.strip_prefix("> "));
    unquoted(line.unwrap_or(text).trim()).trim()
}

/// The name and the value in a row of a cookie jar, as `curl --cookie-jar` writes it: domain, whether it has
/// subdomains, path, whether it is only for HTTPS, end, name and value, with tabs between them. A terminal makes spaces
/// of tabs.
pub(crate) fn jar_row(row: &str) -> Option<(&str, &str)> {
    let fields: Vec<&str> = if row.contains('\t') {
        row.split('\t').collect()
    } else {
        row.split_whitespace().collect()
    };
    match fields[..] {
        [_, "TRUE" | "FALSE", path, "TRUE" | "FALSE", end, name, value, ..]
            if path.starts_with('/') && end.bytes().all(|b| b.is_ascii_digit()) =>
        {
            Some((name, value))
        }
        _ => None,
    }
}

fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_its_line() {
        use CarrierMode::{Cookie, CookiePrefix, Header, HeaderPrefix};
        for (text, name, mode) in [
            ("T", None, None),
            (" \"T\" ", None, None),
            ("'s=T; Path=/'", Some("s"), Some(Cookie)),
            ("< set-cookie: s=T; Path=/", Some("s"), Some(Cookie)),
            ("> Cookie: s='T'", Some("s"), Some(Cookie)),
            ("< x-session: T", Some("x-session"), Some(Header)),
            ("shop.example  TRUE  /  FALSE  0  s  T", Some("s"), Some(Cookie)),
            (
                "#HttpOnly_shop.example\tFALSE\t/\tTRUE\t0\ts\tT",
                Some("s"),
                Some(Cookie),
            ),
            (
                "shop.example\tTRUE\t/a\tFALSE\t1795435200\ts\t\"T~a b\"",
                Some("s"),
                Some(CookiePrefix),
            ),
            ("s=T", Some("s"), Some(Cookie)),
            ("s=\"T\"; Path=/; HttpOnly", Some("s"), Some(Cookie)),
            (
                "set-cookie: s=T; Path=/; Expires=Thu, 01 Jan 1970 00:17:40 GMT",
                Some("s"),
                Some(Cookie),
            ),
            ("Cookie: s=T", Some("s"), Some(Cookie)),
            ("x-session: T", Some("x-session"), Some(Header)),
            ("s=\"T~a~b\"; Path=/", Some("s"), Some(CookiePrefix)),
            ("x-session: T~abc", Some("x-session"), Some(HeaderPrefix)),
            ("Cookie: s=T~abc; a=1", Some("s"), Some(CookiePrefix)),
        ] {
            assert_eq!(
                TokenArgument::parse(text),
                [TokenArgument { token: "T", name, mode }],
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_token_is_found_in_a_url() {
        let token = "EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let expected = TokenArgument {
            token,
            name: Some("s"),
            mode: Some(CarrierMode::Query),
        };
        for url in [
            format!("https://shop.example:8443/a?b=1&s={token}&c#top"),
            format!("/?s={token}"),
            format!("Location: /next?a&s={token}#x"),
            format!("GET /a?s={token} HTTP/1.1"),
        ] {
            assert_eq!(TokenArgument::parse(&url), std::slice::from_ref(&expected), "{url}");
        }
        // A header with a query in its value has no token there.
        let header = &TokenArgument::parse("x-session: T~a?b=c")[0];
        assert_eq!((header.token, header.name), ("T", Some("x-session")));
    }

    #[test]
    fn a_token_is_found_among_a_clients_cookies() {
        let token = "EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for (line, mode) in [
            (
                format!("cookie: a=1; b; s=\"{token}~a\"; c=2"),
                CarrierMode::CookiePrefix,
            ),
            (format!("Cookie: a=1~x; s={token}"), CarrierMode::Cookie),
        ] {
            let expected = TokenArgument {
                token,
                name: Some("s"),
                mode: Some(mode),
            };
            assert_eq!(TokenArgument::parse(&line), [expected], "{line}");
        }
        // In a Set-Cookie, attributes follow the first pair.
        let attribute = format!("Set-Cookie: a=1; s={token}");
        assert_eq!(TokenArgument::parse(&attribute)[0].name, Some("a"));
    }

    #[test]
    fn all_tokens_of_a_line_are_found() {
        let token = "EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let other = token.replace("AEA", "AIA");
        for (line, names) in [
            (
                format!("Cookie: s={token}; a=1; s={other}; t=\"{other}~x\""),
                &["s", "s", "t"][..],
            ),
            (format!("GET /?s={token}&a=1&t={other} HTTP/1.1"), &["s", "t"]),
            (format!("x-session: {token}, {other}"), &["x-session", "x-session"]),
            (
                format!("x-session: {token}~a,b, {other}~c"),
                &["x-session", "x-session"],
            ),
            (format!("Set-Cookie: s={token}; t={other}"), &["s"]),
        ] {
            let found = TokenArgument::parse(&line);
            let tokens: Vec<_> = found.iter().map(|found| found.token).collect();
            let expected = [token, &other, &other];
            assert_eq!(tokens, expected[..names.len()], "{line}");
            let found: Vec<_> = found.iter().filter_map(|found| found.name).collect();
            assert_eq!(found, names, "{line}");
        }
    }
}
