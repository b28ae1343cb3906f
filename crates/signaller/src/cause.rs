//! The RFCs' errors in words, as in IANA's registry.

use europa_signal::wire::Cause;

/// The meaning of a cause.
pub(crate) fn words(cause: Cause) -> &'static str {
    match (cause.code, cause.value) {
        (1, 1) => "the delay cannot be kept",
        (1, 2) => "bandwidth is not available",
        (1, 3) => "packets are longer than the interface's MTU",
        (1, _) => "admission control refuses it",
        (2, 5) => "it was preempted",
        (2, _) => "a policy refuses it",
        (12, _) => "it was preempted",
        (13, _) => "an object class is not known",
        (14, _) => "an object type is not known",
        (21, 1) => "services conflict",
        (21, 2) => "the service is not supported",
        (21, 3) => "the flowspec makes no sense",
        (21, 4) => "the TSpec makes no sense",
        (21 | 22, _) => "the label table refuses it",
        (24, 1) => "the path makes no sense",
        (24, 2) => "the next hop of the path is no neighbour",
        (24, 3) => "no route leads to the next hop of the path",
        (24, 4) => "the path does not begin here",
        (24, 5) => "no route leads to its end",
        (24, 6) => "the label cannot be used",
        (24, 7) => "the path is a circle",
        (24, 8) => "a router on the path does not speak RSVP",
        (24, 9) => "no label is left",
        (24, 10) => "the payload's protocol is not supported",
        (24, _) => "there is no path",
        (34, 1) => "it is to make room for another",
        _ => "an error that is not known",
    }
}
