//! Personal numbers and addresses in the notations of several countries, and similar text.

use super::*;

/// The rows whose text is not redacted to the second column.
fn wrong<'a>(rows: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
    let redactor = redactor(&with_pii());
    let now = |text: &str| {
        let redacted = redactor.redacted(text, &mut Numbers::default());
        redacted.unwrap_or_else(|| text.to_owned())
    };
    let rows = rows
        .iter()
        .map(|(text, expected)| (*text, now(text), *expected));
    let wrong = rows.filter(|(_, now, expected)| now != expected);
    wrong.map(|(text, now, _)| (text, now)).collect()
}

#[test]
fn phone_numbers_without_their_country() {
    let rows = [
        ("(555) 123-4567", "[REDACTED:phone:1]"),
        ("office (555)123-4567.", "office [REDACTED:phone:1]."),
        ("555-123-4567", "[REDACTED:phone:1]"),
        ("at 555.123.4567, or", "at [REDACTED:phone:1], or"),
        ("1-800-555-0199", "[REDACTED:phone:1]"),
        (
            "reach us under 030 1234567.",
            "reach us under [REDACTED:phone:1].",
        ),
        ("0171/1234567", "[REDACTED:phone:1]"),
        ("0171 1234567", "[REDACTED:phone:1]"),
        ("(030) 1234567", "[REDACTED:phone:1]"),
        ("Tel. 0171/1234567", "Tel. [REDACTED:phone:1]"),
        ("Tel.: 030/123456", "Tel.: [REDACTED:phone:1]"),
        ("020 7946 0958", "[REDACTED:phone:1]"),
        ("07700 900123", "[REDACTED:phone:1]"),
        ("0161 496 0000", "[REDACTED:phone:1]"),
        ("06 12 34 56 78", "[REDACTED:phone:1]"),
        ("au 06.12.34.56.78 demain", "au [REDACTED:phone:1] demain"),
        ("mobile 0612345678", "mobile [REDACTED:phone:1]"),
        ("userPhone=0309018201", "userPhone=[REDACTED:phone:1]"),
        ("userphone: 0309018201", "userphone: [REDACTED:phone:1]"),
        ("homeTel: 0309018201", "homeTel: [REDACTED:phone:1]"),
        ("call 030 901820", "call [REDACTED:phone:1]"),
        ("call 415 555 2671 now", "call [REDACTED:phone:1] now"),
        (
            r#"{"phone":"030901820","id":"030901820"}"#,
            r#"{"phone":"[REDACTED:phone:1]","id":"030901820"}"#,
        ),
        (r#"{"ssn":"536904399"}"#, r#"{"ssn":"[REDACTED:ssn:1]"}"#),
    ];
    assert_eq!(wrong(&rows), []);
}

#[test]
fn numbers_that_are_no_phones() {
    let rows = [
        "2025-12-27 10:40:00, 27.12.2025, 12/27/2025, 2025/12/27, 20251227 104000",
        "10:40:00.123 0930 20251227, 030 20251227, 00:30:12.345678",
        "id 1234567890, order 123-456-7890, ref 000-123-4567, #0301234567",
        "v0.30.1234567, 1.23.4567, 0.171.12, 10.15.7",
        "localhost:8080, 127.0.0.1:5432, src/main.rs:120:45, 12:030",
        "1 234 567.89 EUR, 12.345.678,90, 1,234,567, 0.301234567, 100 1234567",
        "ISBN 978-3-16-148410-0, ISBN 0-306-40615-2, 0306406152, 9783161484100",
        "67e55044-0171-426f-9247-bb680e5fe001, 00000000-0000-0000-0000-000000000001",
        "0171b2c3d4e5f60718293a4b5c6d7e8f, 0x0301234567, da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "index 0171234..1234567 100644",
        "06 12 34 56 78 9a bc",
        "de ad 06 12 34 56 78",
        "0000020 062554 067567 020054",
        "+262142-12-31, +10000-09-09 01:46:39, Decimal('+35236450.6')",
        "05 10 15 20 25",
        "06 12 18 24 30",
        "12 030 1234567",
        "030 1234567 99",
        "| 030 | 1234567 |",
        "030\t1234567\t12",
        "file 007 1234567, 099 1234567, 010 7654321",
        "/0171/1234567, a/0171/1234567.json, 0001/0000123",
        "chmod 0755 1234567, mode 0644 12345678",
        "syscall 12345678, call 12345678, hotel 12345678, excel 12345678",
        "call 2025-12-27 10:40",
        "call(030, 1234567), f(030) + 1234567",
        "rgb(255, 100, 1234) (255) 1234567",
        "1-2-3-4, 1-12-123-1234, 3-3-4",
        r#"{"total":"030901820","hotel":"030901820"}"#,
    ];
    assert_eq!(wrong(&rows.map(|text| (text, text))), []);
}

#[test]
fn addresses_and_accounts_of_other_forms() {
    let rows = [
        ("jürgen@müller.de", "[REDACTED:email:1]"),
        ("an jürgen.groß@müller.de.", "an [REDACTED:email:1]."),
        ("mail иван@почта.рф now", "mail [REDACTED:email:1] now"),
        ("a@b.xn--p1ai", "[REDACTED:email:1]"),
        (
            r#"{"a":"j\u00fcrgen@m\u00fcller.de"}"#,
            r#"{"a":"[REDACTED:email:1]"}"#,
        ),
        ("“bob@mail.de”", "“[REDACTED:email:1]”"),
        ("邮箱bob@mail.de。", "邮箱[REDACTED:email:1]。"),
        ("de89370400440532013000", "[REDACTED:iban:1]"),
        ("iban: gb82west12345698765432", "iban: [REDACTED:iban:1]"),
        ("de89 3704 0044 0532 0130 00", "[REDACTED:iban:1]"),
        ("foo@bar.baz()", "foo@bar.baz()"),
        ("foo@bar.baz(1)", "foo@bar.baz(1)"),
        ("@pkg.mod def f", "@pkg.mod def f"),
        ("@müller.mod", "@müller.mod"),
        ("ü@ö", "ü@ö"),
        ("de88370400440532013000", "de88370400440532013000"),
        ("De89370400440532013000", "De89370400440532013000"),
        ("ae07033123456789012345f", "ae07033123456789012345f"),
    ];
    assert_eq!(wrong(&rows), []);
}
