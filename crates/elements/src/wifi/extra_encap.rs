//! # ExtraEncap
//!
//! ## Synopsis
//! `ExtraEncap()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts the annotations for the radio (rates, power, tries) before each IEEE 802.11 frame: the 24
//! bytes that drivers made for Click read.
//!
//! ## Arguments
//! - DEBUG (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//! - `drops` (read): frames without room for it.
//!
//! ## See also
//! `ExtraDecap`, `RadiotapEncap`, `SetTXRate`

use super::Extra;
use crate::prelude::*;
use crate::shared::fields::grow_front;

/// Puts notes before frames.
#[derive(Default)]
pub(crate) struct ExtraEncap {
    debug: bool,
    drops: u64,
}

impl Class for ExtraEncap {
    const INFO: ClassInfo = ClassInfo::new("ExtraEncap", "1/1");
}

impl Element for ExtraEncap {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let mut drops = 0;
        batch.filter(
            |packet| {
                let extra = Extra::of(packet).marked().bytes();
                let front = grow_front(packet, Extra::BYTES);
                front.map(|front| crate::shared::made::write(front, &extra)).is_some()
            },
            |_| drops += 1,
        );
        self.drops += drops;
    }

    handlers! { this, context, value;
        both "debug" [CHECKBOX] => this.debug;
        read "drops" => this.drops;
    }
}
