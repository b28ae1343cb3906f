#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| europa_fuzz::xdp(data));
