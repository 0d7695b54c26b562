//! Integers that other languages do not have as numbers.

/// Whether JSON has a run of at least this number of digits, also within a text. Without one, no
/// integer has as many.
///
/// ```
/// use decklog::bindings::has_long_number;
/// assert!(has_long_number(br#"{"n":18446744073709551615}"#, 19));
/// assert!(!has_long_number(br#"{"n":1766832000123}"#, 19));
/// ```
pub fn has_long_number(json: &[u8], digits: usize) -> bool {
    let digits = digits.max(1);
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    // Each such run covers one of these places.
    let mut places = (digits - 1..json.len()).step_by(digits);
    places.any(|place| {
        let before = json[..=place].iter().rev().take_while(is_digit).count();
        before > 0 && before + json[place + 1..].iter().take_while(is_digit).count() >= digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_wherever_it_is() {
        for before in 0..60 {
            for length in 0..40 {
                let json = "x".repeat(before) + &"7".repeat(length) + "x";
                assert_eq!(has_long_number(json.as_bytes(), 19), length >= 19, "{json}");
            }
        }
    }
}
