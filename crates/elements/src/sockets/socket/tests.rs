//! Tests of `Socket`.

use crate::testing::Bench;

#[test]
fn mistakes_are_named() {
    for (arguments, error) in [
        (&["SCTP", "1.2.3.4", "5"][..], "unknown socket type 'SCTP'"),
        (&["TCP"], "ADDR: required argument missing"),
        (&["TCP", "x", "5"], "ADDR: expected IP address, found 'x'"),
        (&["UDP", "1.2.3.4", "70000"], "PORT: expected port, found '70000'"),
        (&["UNIX"], "FILENAME: required argument missing"),
        (
            &["UNIX", "/nowhere/at/all", "CLIENT true"],
            "unix /nowhere/at/all: No such file or directory",
        ),
        (
            &["TCP", "192.0.2.1", "5", "CLIENT false"],
            "tcp 192.0.2.1:5: Cannot assign requested address",
        ),
    ] {
        assert_eq!(Bench::error("Socket", arguments), error, "{arguments:?}");
    }
}
