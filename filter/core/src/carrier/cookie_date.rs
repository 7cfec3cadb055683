//! Dates of cookies as browsers read them (RFC 6265 section 5.1.1). Applications vary, and a logout must not be missed.

/// The Unix time of a date; `None` if browsers ignore it.
pub(super) fn seconds(date: &[u8]) -> Option<i64> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in date.split(|byte| is_delimiter(*byte)) {
        if time.is_none()
            && let Some(found) = time_of(token)
        {
            time = Some(found);
        } else if day.is_none()
            && let Some(found) = number(token, 1, 2)
        {
            day = Some(found);
        } else if month.is_none()
            && let Some(found) = month_of(token)
        {
            month = Some(found);
        } else if year.is_none() {
            year = number(token, 2, 4);
        }
    }
    let year = match year? {
        short @ 70..=99 => short + 1900,
        short @ 0..=69 => short + 2000,
        year => year,
    };
    let ([hour, minute, second], month, day) = (time?, month?, day?);
    let is_valid = year >= 1601 && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
    is_valid.then(|| ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days since 1970 in the Gregorian calendar, for years after 0. Years begin in March, so that a leap day ends one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let of_years = 365 * year + year / 4 - year / 100 + year / 400;
    of_years + (153 * month + 2) / 5 + day - 1 - 719_468
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'/' | b';'..=b'@' | b'['..=b'`' | b'{'..=b'~')
}

fn time_of(token: &[u8]) -> Option<[i64; 3]> {
    let mut parts = token.splitn(3, |byte| *byte == b':');
    let exact = |part: &[u8]| number(part, 1, 2).filter(|_| part.len() <= 2 && part.iter().all(u8::is_ascii_digit));
    Some([
        exact(parts.next()?)?,
        exact(parts.next()?)?,
        number(parts.next()?, 1, 2)?,
    ])
}

fn number(token: &[u8], least: usize, most: usize) -> Option<i64> {
    let count = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = token.get(..count).filter(|_| (least..=most).contains(&count))?;
    Some(
        digits
            .iter()
            .fold(0, |number, digit| number * 10 + i64::from(digit - b'0')),
    )
}

fn month_of(token: &[u8]) -> Option<i64> {
    let begins = |name: &&str| {
        token
            .get(..3)
            .is_some_and(|three| three.eq_ignore_ascii_case(name.as_bytes()))
    };
    let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    i64::try_from(months.iter().position(begins)? + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_browsers_read_them() {
        for (date, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 1 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 01-Jan-1970 00:00:10 GMT", Some(10)),
            ("Thursday, 01-Jan-70 00:00:01 GMT", Some(1)),
            ("Thu Jan  1 00:00:00 1970", Some(0)),
            ("Thu Jan 01 1970 00:00:00 GMT+0000 (UTC)", Some(0)),
            ("Thu, 01 Jan 1970 00:00:00 -0000", Some(0)),
            ("\"Thu, 01 Jan 1970 00:00:00 UTC\"", Some(0)),
            ("1970 january 1st 0:0:0z", Some(0)),
            ("1601 1 jan 0:0:0", Some(-11_644_473_600)),
            ("29 Feb 2000 12:34:56", Some(951_827_696)),
            ("01 Mar 69 00:00:00", Some(3_129_321_600)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
        ] {
            assert_eq!(seconds(date.as_bytes()), expected, "{date}");
        }
        for date in [
            "",
            "never",
            "0",
            "1970-01-01T00:00:00Z",
            "01 Jan 1970",
            "01 Jan 00:00:00",
            "Jan 1970 00:00:00",
            "32 Jan 1970 00:00:00",
            "0 Jan 1970 00:00:00",
            "01 Jan 1600 00:00:00",
            "01 Jan 19700 00:00:00",
            "01 Jan 1970 24:00:00",
            "01 Jan 1970 00:60:00",
            "01 Jan 1970 00:00:60",
            "01 Jan 1970 00:00",
            "01 Jan 1970 000:00:00",
            "01 Jan 1970 00x:00:00",
            "\u{ff11} Jan 1970 00:00:00",
        ] {
            assert_eq!(seconds(date.as_bytes()), None, "{date}");
        }
    }
}
