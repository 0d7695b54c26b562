#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decklog::fuzz::manifest(data));
