//! Each test plants a value in a text for the search.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]

use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::*;

/// 32 different bytes: printable ones, high ones and zero.
fn key() -> [u8; 32] {
    std::array::from_fn(|i| u8::try_from((i * 89 + 200) % 256).unwrap())
}

fn leaks() -> Leaks {
    Leaks::default().key("k", &BASE64_STANDARD.encode(key())).unwrap()
}

#[track_caller]
fn found(leaks: &Leaks, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    let planted = [b"before: 1, 2, 3 \xff", text, b"\x00, behind".as_slice()].concat();
    assert!(
        !leaks.find("there", &planted).unwrap().is_empty(),
        "{}",
        text.escape_ascii()
    );
}

fn each(bytes: &[u8], separator: &str, print: impl Fn(&u8) -> String) -> String {
    bytes.iter().map(print).collect::<Vec<_>>().join(separator)
}

#[test]
fn a_text_without_secrets_has_no_findings() {
    let text = format!("{:?} {} {}", [7; 64], "0123456789abcdef".repeat(50), "QUJD".repeat(100));
    assert_eq!(leaks().find("there", text).unwrap(), Vec::<String>::new());
    let other: Vec<u8> = key().iter().map(|byte| byte ^ 1).collect();
    for text in [
        other.clone(),
        format!("{other:?}").into_bytes(),
        BASE64_STANDARD.encode(&other).into_bytes(),
    ] {
        leaks().none_in("there", text).unwrap();
    }
}

#[test]
fn a_key_is_found_in_every_spelling_forwards_and_backwards() {
    let leaks = leaks();
    let mut backwards = key();
    backwards.reverse();
    for bytes in [key(), backwards] {
        let bytes = bytes.as_slice();
        found(&leaks, bytes);
        found(&leaks, format!("{bytes:?}"));
        found(&leaks, format!("{bytes:x?}").replace(", ", ","));
        found(&leaks, format!("{bytes:02x?}"));
        found(&leaks, format!("{bytes:02X?}"));
        found(
            &leaks,
            format!(
                "{:?}",
                bytes.iter().map(|byte| i8::from_ne_bytes([*byte])).collect::<Vec<_>>()
            ),
        );
        found(&leaks, bytes.escape_ascii().to_string());
        for separator in ["", ":", "-", " ", ",", ", "] {
            found(&leaks, each(bytes, separator, |byte| format!("{byte:02x}")));
            found(&leaks, each(bytes, separator, |byte| format!("{byte:02X}")));
        }
        for separator in [" ", ",", ", "] {
            found(&leaks, each(bytes, separator, u8::to_string));
            found(&leaks, each(bytes, separator, |byte| format!("0x{byte:02x}")));
            found(&leaks, each(bytes, separator, |byte| format!("0x{byte:02X}")));
        }
        found(&leaks, each(bytes, "", |byte| format!("%{byte:02x}")));
        found(&leaks, each(bytes, "", |byte| format!("%{byte:02X}")));
        found(&leaks, each(bytes, "", |byte| format!("\\x{byte:02x}")));
        found(&leaks, each(bytes, "", |byte| format!("\\u{byte:04x}")));
        found(&leaks, each(bytes, "", |byte| format!("\\{byte:03o}")));
    }
}

/// As in a protobuf's text form, or in a query.
#[test]
fn a_key_is_found_if_only_some_bytes_are_escaped() {
    let leaks = leaks();
    let escaped = |escape: &dyn Fn(u8) -> String, keep: &dyn Fn(u8) -> bool| {
        each(&key(), "", |byte| {
            if keep(*byte) {
                char::from(*byte).to_string()
            } else {
                escape(*byte)
            }
        })
    };
    let printable = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\\\"'".contains(&byte);
    assert!(key().iter().any(|byte| printable(*byte)) && !key().iter().all(|byte| printable(*byte)));
    found(&leaks, escaped(&|byte| format!("\\{byte:03o}"), &printable));
    found(&leaks, escaped(&|byte| format!("\\x{byte:02x}"), &printable));
    found(
        &leaks,
        escaped(&|byte| format!("%{byte:02X}"), &|byte| byte.is_ascii_alphanumeric()),
    );
    found(
        &leaks,
        escaped(&|byte| format!("%{byte:02x}"), &|byte| byte.is_ascii_alphanumeric()),
    );
}

#[test]
fn a_key_is_found_in_base64_wherever_it_begins() {
    let leaks = leaks();
    for before in 0..4 {
        for behind in 0..3 {
            let bytes = [vec![0x5a; before], key().to_vec(), vec![0xa5; behind]].concat();
            for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
                found(&leaks, engine.encode(&bytes));
            }
        }
    }
}

/// The base64 is as secret as the key, and may be encoded again, as in a base64 configuration.
#[test]
fn the_text_of_a_key_is_found_in_every_spelling_too() {
    let leaks = leaks();
    let text = BASE64_STANDARD.encode(key());
    found(&leaks, &text);
    for before in 0..3 {
        found(&leaks, BASE64_STANDARD.encode(format!("{}{text}", "x".repeat(before))));
    }
    found(&leaks, format!("{:?}", text.as_bytes()));
    found(&leaks, each(text.as_bytes(), "", |byte| format!("{byte:02x}")));
    found(&leaks, text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"));
    found(
        &leaks,
        text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
    );
    found(&leaks, text.chars().rev().collect::<String>());
}

#[test]
fn a_part_of_a_key_is_found() {
    let leaks = leaks();
    for part in key().windows(15) {
        found(&leaks, part);
        found(&leaks, each(part, "", |byte| format!("{byte:02x}")));
        found(&leaks, format!("{part:?}"));
        found(&leaks, BASE64_STANDARD.encode(part));
    }
}

#[test]
fn a_finding_says_what_was_found_and_where() {
    let found = leaks()
        .find("the log", format!("a line with {:02x?} in it", key()))
        .unwrap();
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("the log shows k (hex, \", \" between): …a line with [")),
        "{found:#?}"
    );
    assert!(
        leaks()
            .none_in("the log", key())
            .unwrap_err()
            .to_string()
            .contains("the log shows k (raw)")
    );
}

#[test]
fn a_host_is_found_in_every_spelling_forwards_and_backwards() {
    let host: SocketAddr = "127.83.141.67:43210".parse().unwrap();
    let leaks = Leaks::default().host("a", host);
    leaks
        .none_in("there", "127.0.0.1:43210 127.83.141.66 7f538d42")
        .unwrap();
    let mut octets = [127, 83, 141, 67];
    for _ in 0..2 {
        octets.reverse();
        found(&leaks, octets);
        found(&leaks, format!("{octets:?}"));
        found(&leaks, each(&octets, ".", u8::to_string));
        for separator in ["", ":", " "] {
            found(&leaks, each(&octets, separator, |byte| format!("{byte:02x}")));
            found(&leaks, each(&octets, separator, |byte| format!("{byte:02X}")));
        }
        found(&leaks, each(&octets, "", |byte| format!("%{byte:02X}")));
        found(&leaks, u32::from_be_bytes(octets).to_string());
        for before in 0..3 {
            let bytes = [vec![9; before], octets.to_vec(), vec![0xa8, 0xca]].concat();
            found(&leaks, BASE64_STANDARD.encode(bytes));
        }
    }
    found(&leaks, host.to_string());
    found(&leaks, BASE64_STANDARD.encode(host.to_string()));
    found(&leaks, BASE64_STANDARD.encode(format!("xx{host}")));
    found(
        &leaks,
        each(host.to_string().as_bytes(), "", |byte| format!("{byte:02x}")),
    );
    found(&leaks, format!("::ffff:{}", host.ip()));
    found(&leaks, "::ffff:7f53:8d43");
}

#[test]
fn a_host_of_ipv6_is_found() {
    let host: SocketAddr = "[2001:db8:17:4a::5c:e7]:443".parse().unwrap();
    let leaks = Leaks::default().host("a", host);
    found(&leaks, host.to_string());
    found(&leaks, BASE64_STANDARD.encode(host.to_string()));
    let IpAddr::V6(ip) = host.ip() else { panic!("{host}") };
    found(&leaks, ip.octets());
    found(&leaks, BASE64_STANDARD.encode(ip.octets()));
    found(&leaks, each(&ip.octets(), "", |byte| format!("{byte:02x}")));
}
