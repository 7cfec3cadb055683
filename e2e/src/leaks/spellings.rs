//! The ways that software prints bytes.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Every spelling of these bytes, found also between other bytes.
pub(super) fn spellings(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = vec![("raw".to_owned(), bytes.to_vec())];
    let mut add = |name: String, text: String| all.push((name, text.into_bytes()));
    for separator in ["", ":", "-", " ", ",", ", "] {
        add(
            format!("hex, {separator:?} between"),
            joined(bytes, separator, |byte| format!("{byte:02x}")),
        );
        add(
            format!("HEX, {separator:?} between"),
            joined(bytes, separator, |byte| format!("{byte:02X}")),
        );
    }
    for separator in ["", " ", ",", ", "] {
        add(
            format!("0x, {separator:?} between"),
            joined(bytes, separator, |byte| format!("0x{byte:02x}")),
        );
        add(
            format!("0X, {separator:?} between"),
            joined(bytes, separator, |byte| format!("0x{byte:02X}")),
        );
    }
    for separator in [" ", ",", ", ", "."] {
        add(
            format!("decimal, {separator:?} between"),
            joined(bytes, separator, |byte| byte.to_string()),
        );
        let signed = |byte: u8| i8::from_ne_bytes([byte]).to_string();
        add(
            format!("signed, {separator:?} between"),
            joined(bytes, separator, signed),
        );
    }
    for (name, escape) in ESCAPES {
        // Software escapes either every byte or only those that need it.
        add(format!("{name}, all"), joined(bytes, "", escape));
        let plain = |byte: u8| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                escape(byte)
            }
        };
        add(format!("{name}, some"), joined(bytes, "", plain));
        let graphic = |byte: u8| match byte {
            b'\\' | b'"' | b'\'' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => escape(byte),
        };
        add(format!("{name}, few"), joined(bytes, "", graphic));
    }
    add("Rust's escapes".to_owned(), bytes.escape_ascii().to_string());
    all.push(("UTF-16".to_owned(), bytes.iter().flat_map(|byte| [*byte, 0]).collect()));
    for before in 0..3 {
        for (name, engine) in [("base64", &STANDARD_NO_PAD), ("base64url", &URL_SAFE_NO_PAD)] {
            let name = format!("{name}, {before} bytes before");
            all.push((name, base64_within(bytes, before, |bytes| engine.encode(bytes))));
        }
    }
    let mut known = std::collections::BTreeSet::new();
    all.retain(|(_, spelling)| known.insert(spelling.clone()));
    all
}

type Escape = fn(u8) -> String;

const ESCAPES: [(&str, Escape); 6] = [
    ("percent", |byte| format!("%{byte:02x}")),
    ("PERCENT", |byte| format!("%{byte:02X}")),
    ("\\x", |byte| format!("\\x{byte:02x}")),
    ("\\X", |byte| format!("\\x{byte:02X}")),
    ("octal", |byte| format!("\\{byte:03o}")),
    ("\\u", |byte| format!("\\u{byte:04x}")),
];

fn joined(bytes: &[u8], separator: &str, print: impl Fn(u8) -> String) -> String {
    let printed: Vec<String> = bytes.iter().map(|byte| print(*byte)).collect();
    printed.join(separator)
}

/// The base64 characters that depend only on these bytes, behind `before` other bytes.
fn base64_within(bytes: &[u8], before: usize, encode: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let encoded = encode(&[&vec![0; before], bytes].concat());
    // 6 bits each: from the first character that begins within the bytes to the last that ends within them.
    let first = (before * 8).div_ceil(6);
    let last = (before + bytes.len()) * 8 / 6;
    encoded.as_bytes()[first..last].to_vec()
}
