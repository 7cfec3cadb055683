//! Texts as Go reads and writes them: Contour's durations and messages.

use std::fmt::Write as _;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoDuration {
    Unsaid,
    /// `infinity`, zero, or less.
    Unlimited,
    Of(Duration),
}

/// Reads a duration of Go's `time.ParseDuration`, or `infinity`.
pub(super) fn length(text: &str) -> Option<GoDuration> {
    match text {
        "" => return Some(GoDuration::Unsaid),
        "infinity" => return Some(GoDuration::Unlimited),
        _ => {}
    }
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(GoDuration::Unlimited);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (nanoseconds, behind) = part(rest)?;
        total = total.checked_add(nanoseconds)?;
        rest = behind;
    }
    // Go counts in 63 bits, and one more below zero.
    let most = i64::MAX.unsigned_abs() + u64::from(is_negative);
    let total = u64::try_from(total).ok().filter(|total| *total <= most)?;
    Some(if is_negative || total == 0 {
        GoDuration::Unlimited
    } else {
        GoDuration::Of(Duration::from_nanos(total))
    })
}

fn part(text: &str) -> Option<(u128, &str)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at_checked(digits(text))?;
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at_checked(digits(rest))?,
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(end)?;
    let unit: u128 = match unit {
        "ns" => 1,
        // The sign for micro, and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Beyond the thirteenth digit of an hour's fraction is less than a nanosecond.
    let fraction = fraction.get(..fraction.len().min(18)).unwrap_or_default();
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some((whole.checked_mul(unit)?.checked_add(fraction * unit / scale)?, rest))
}

/// Quotes a text as `%q` does.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            // Writing to a String cannot fail.
            c if c < ' ' => drop(write!(quoted, "\\x{:02x}", u32::from(c))),
            c if is_printed(c) => quoted.push(c),
            c if u32::from(c) < 0x1_0000 => drop(write!(quoted, "\\u{:04x}", u32::from(c))),
            c => drop(write!(quoted, "\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go prints it as it is: letters, marks, numbers, punctuation, symbols, and of spaces only ASCII's.
fn is_printed(c: char) -> bool {
    c == '\'' || c.escape_debug().len() == 1 || is_mark(c)
}

/// Marks that Rust escapes where no letter is in front of them.
fn is_mark(c: char) -> bool {
    let mut with_letter = format!("a{c}").escape_debug().to_string();
    with_letter.remove(0);
    with_letter.chars().eq([c])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let of = |nanoseconds| Some(GoDuration::Of(Duration::from_nanos(nanoseconds)));
        for (text, expected) in [
            ("", Some(GoDuration::Unsaid)),
            ("infinity", Some(GoDuration::Unlimited)),
            ("0", Some(GoDuration::Unlimited)),
            ("0s", Some(GoDuration::Unlimited)),
            ("-5s", Some(GoDuration::Unlimited)),
            ("-0", Some(GoDuration::Unlimited)),
            ("+5s", of(5_000_000_000)),
            ("1h2m3s4ms5us6ns", of(3_723_004_005_006)),
            ("1.5s", of(1_500_000_000)),
            (".5s", of(500_000_000)),
            ("1.s", of(1_000_000_000)),
            ("100\u{b5}s", of(100_000)),
            ("100\u{3bc}s", of(100_000)),
            ("0.333333333333333333h", of(1_199_999_999_999)),
            ("9223372036854775807ns", of(9_223_372_036_854_775_807)),
            ("9223372036854775808ns", None),
            ("-9223372036854775808ns", Some(GoDuration::Unlimited)),
            ("3000000h", None),
            ("5", None),
            ("s", None),
            (".s", None),
            ("-", None),
            ("+", None),
            ("5 s", None),
            ("5S", None),
            ("1d", None),
            ("--5s", None),
            ("1e3s", None),
            ("Infinity", None),
            ("99999999999999999999999999999999999999999999h", None),
        ] {
            assert_eq!(length(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        for (text, expected) in [
            ("", r#""""#),
            ("/a b", r#""/a b""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\0\u{7f}", r#""\x00\u007f""#),
            (
                "\u{a0}\u{ad}\u{200b}\u{2028}\u{e000}\u{e0001}",
                r#""\u00a0\u00ad\u200b\u2028\ue000\U000e0001""#,
            ),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{85}", r#""\u0085""#),
            ("\u{e9}'", "\"\u{e9}'\""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
