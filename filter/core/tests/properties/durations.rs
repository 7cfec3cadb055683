//! Durations survive being written and read.

use std::time::Duration;

use limpet_core::time::GatewayDuration;
use proptest::prelude::*;

/// GEP-2257's largest duration: 99999h59m59s999ms.
const LARGEST: u64 = ((99_999 * 60 + 59) * 60 + 59) * 1000 + 999;

fn unit_millis(unit: &str) -> u64 {
    match unit {
        "h" => 3_600_000,
        "m" => 60_000,
        "s" => 1000,
        _ => 1,
    }
}

fn parts() -> impl Strategy<Value = Vec<(u32, &'static str)>> {
    let unit = prop::sample::select(vec!["h", "m", "s", "ms"]);
    prop::collection::vec((0..100_000u32, unit), 1..=4)
}

fn written(parts: &[(u32, &str)]) -> (String, u64) {
    let text = parts.iter().map(|(number, unit)| format!("{number}{unit}")).collect();
    let millis = parts
        .iter()
        .map(|(number, unit)| u64::from(*number) * unit_millis(unit))
        .sum();
    (text, millis)
}

proptest! {
    #[test]
    fn every_displayed_duration_parses_to_itself(millis in 0..=LARGEST) {
        let duration = GatewayDuration::from(Duration::from_millis(millis));
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn the_parts_of_a_duration_add_up(parts in parts()) {
        let (text, millis) = written(&parts);
        prop_assume!(millis <= LARGEST);
        let duration: GatewayDuration = text.parse().unwrap();
        prop_assert_eq!(duration.get(), Duration::from_millis(millis));
    }

    #[test]
    fn every_parsed_duration_survives_display_and_parse(parts in parts()) {
        let (text, _) = written(&parts);
        // More hours than five digits may be refused.
        if let Ok(duration) = text.parse::<GatewayDuration>() {
            prop_assert_eq!(duration.to_string().parse(), Ok(duration), "{} became {}", text, duration);
        }
    }

    #[test]
    fn nothing_else_is_a_duration(text in "[0-9hms. +-]{0,12}") {
        prop_assert_eq!(text.parse::<GatewayDuration>().is_ok(), is_gep_2257(&text), "{}", text);
    }
}

/// `^([0-9]{1,5}(h|m|s|ms)){1,4}$`, character by character.
fn is_gep_2257(text: &str) -> bool {
    let mut rest = text;
    for _ in 0..4 {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let tail = &rest[digits..];
        let unit = ["ms", "h", "m", "s"].into_iter().find(|unit| tail.starts_with(unit));
        let (1..=5, Some(unit)) = (digits, unit) else {
            return false;
        };
        rest = &tail[unit.len()..];
        if rest.is_empty() {
            return true;
        }
    }
    false
}
