//! # IPNameInfo
//!
//! ## Synopsis
//! `IPNameInfo()`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Has no effect: all elements know the names of protocols, ports and ICMP types without it.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `PortInfo`, `AddressInfo`

use europa_engine::{Class, ClassInfo, Element, Phase};

/// Accepts names; all of them are known anyway.
#[derive(Default)]
pub(crate) struct IPNameInfo;

impl Class for IPNameInfo {
    const INFO: ClassInfo = ClassInfo::new("IPNameInfo", "0/0").phase(Phase::Info);
}

impl Element for IPNameInfo {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn it_takes_no_arguments() {
        assert!(Bench::try_new("IPNameInfo", &[], None, None).is_ok());
        assert_eq!(Bench::error("IPNameInfo", &["x"]), "unexpected argument 'x'");
    }
}
