#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| snbb_fuzz::array_ranges(data));
