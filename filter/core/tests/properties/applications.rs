//! Values of applications: a token in front can be removed again, and dates tell deletions.

use std::time::Duration;

use limpet_core::carrier::cookie::{Lifetime, SameSite, Secure, SessionCookie};
use limpet_core::carrier::set_cookie::{CookieChange, change_of, is_deletion, value_of};
use limpet_core::carrier::{header, prefix};
use limpet_core::time::Timestamp;
use proptest::prelude::*;

use crate::token::token;

/// The last second of the year 9999. HTTP has no later date.
const LATEST: u64 = 253_402_300_799;

const ENDS: [&str; 4] = ["", "; Path=/", "; Max-Age=9", "; Path=/a; Max-Age=0"];

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

proptest! {
    #[test]
    fn any_value_survives_any_token_in_front(value: Vec<u8>, token in token(), outer in token()) {
        let prefixed = prefix::added(&value, &token);
        let found = prefix::find(&prefixed).expect("a prefix");
        prop_assert_eq!(found.token(&prefixed), token.as_bytes());
        prop_assert_eq!(found.removed(&prefixed), value);
        // Another Limpet in front removes only its own token.
        let twice = prefix::added(&prefixed, &outer);
        let found = prefix::find(&twice).expect("a prefix");
        prop_assert_eq!(found.token(&twice), outer.as_bytes());
        prop_assert_eq!(found.removed(&twice), prefixed);
    }

    #[test]
    fn any_list_survives_tokens_in_front_of_its_values(
        values in prop::collection::vec("[ -~]{0,12}", 1..6),
        token in token(),
    ) {
        let prefixed: Vec<_> = values.iter().map(|value| prefix::added(value.as_bytes(), &token)).collect();
        let (field, mut found) = (prefixed.join(&b","[..]), Vec::new());
        let rest = header::without_prefixes(&field, |token| found.push(token));
        prop_assert_eq!(found, vec![token.as_bytes(); values.len()]);
        prop_assert_eq!(rest, Some(values.join(",").into_bytes()));
    }

    #[test]
    fn the_order_of_fields_says_nothing_of_a_cookie(
        fields in prop::collection::vec(("[st]", "[ab]{0,2}", prop::sample::select(&ENDS)), 0..5).prop_shuffle(),
    ) {
        let written: Vec<_> = fields.iter().map(|(name, value, end)| format!("{name}={value}{end}")).collect();
        let of_name = || fields.iter().filter(|(name, ..)| name == "s");
        let sets = of_name().any(|(_, value, end)| !value.is_empty() && !end.contains("Max-Age=0"));
        let expected = if sets {
            Some(CookieChange::Set)
        } else {
            of_name().next().map(|_| CookieChange::Deleted)
        };
        let found = change_of(written.iter().map(String::as_bytes), "s", at(1));
        prop_assert_eq!(found, expected, "{:?}", written);
    }

    /// This crate writes Expires as IMF-fixdate, too.
    #[test]
    fn a_date_deletes_from_its_second_onwards(end in 0..LATEST, now in 0..LATEST, near in -2..3_i64) {
        let cookie = SessionCookie {
            path: "/".into(),
            domain: None,
            secure: Secure::Never,
            http_only: false,
            same_site: SameSite::Lax,
            partitioned: false,
            lifetime: Lifetime::Permanent { absolute_timeout: Duration::from_secs(end) },
        };
        let field = cookie.set_cookie("s", "T", at(0), at(0), false);
        let max_age = format!("; Max-Age={end}");
        prop_assert!(field.contains(&max_age) && field.contains("; Expires="), "{}", field);
        prop_assert_eq!(value_of(field.as_bytes(), "s").map(|range| &field[range]), Some("T"));
        prop_assert_eq!(is_deletion(field.as_bytes(), at(now)), end == 0, "Max-Age counts");
        let by_date = field.replace(&max_age, "");
        for now in [now, end.saturating_add_signed(near)] {
            prop_assert_eq!(is_deletion(by_date.as_bytes(), at(now)), end <= now, "{} at {}", by_date, now);
        }
    }
}
