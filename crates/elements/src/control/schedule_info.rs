//! # ScheduleInfo
//!
//! ## Synopsis
//! `ScheduleInfo(ELEMENT SHARE, ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Sets the share of turns that elements with a task get, such as `Unqueue`. Inside a compound
//! element shares multiply with the share of the compound.
//!
//! ## Arguments
//! - ELEMENT SHARE: unnamed elements have a share of 1; 0.5 is half as many turns, 2 twice as many.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Unqueue`

use europa_engine::{Class, ClassInfo, ConfigError, Element, InitContext, Phase, arguments};

use crate::control::script::shift_word;

/// Tickets of an element with a share of 1.
const TICKETS: f64 = 1024.0;
/// Most tickets of one element.
const MOST_TICKETS: f64 = 32768.0;

/// Gives elements more or fewer turns.
#[derive(Default)]
pub(crate) struct ScheduleInfo {
    shares: Vec<(usize, String, f64)>,
}

impl Class for ScheduleInfo {
    const INFO: ClassInfo =
        ClassInfo::new("ScheduleInfo", "0/0").phase(Phase::Last).inline().keeps_long();
}

impl Element for ScheduleInfo {
    arguments! { this, given;
        let texts = rest "ELEMENT": "'ELEMENT SHARE'";
        then {
            for (index, argument) in texts {
                let mut rest = argument;
                let name = shift_word(&mut rest);
                if name.is_empty() {
                    continue;
                }
                match given.value::<f64>("SHARE", index, rest) {
                    Ok(share) if share >= 0.0 => this.shares.push((index, name.to_owned(), share)),
                    _ => given.error(ConfigError::at(index, "expected 'ELEMENT SHARE'")),
                }
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        for (index, name, share) in &self.shares {
            // With a share of zero the element would never have a turn.
            let tickets = (share * TICKETS).clamp(1.0, MOST_TICKETS) as u32;
            let inside: Vec<usize> = match context.find(name) {
                Some(element) => vec![element],
                None => {
                    let scope = context.name().rsplit_once('/').map_or("", |(scope, _)| scope);
                    let start = match scope {
                        "" => format!("{name}/"),
                        scope => format!("{scope}/{name}/"),
                    };
                    let names = context.names().iter().enumerate();
                    names.filter(|(_, n)| n.starts_with(&start)).map(|(i, _)| i).collect()
                }
            };
            if inside.is_empty() {
                return Err(ConfigError::at(*index, format!("no element named '{name}'")));
            }
            for element in inside {
                context.set_tickets(element, tickets);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn mistakes_are_named() {
        assert_eq!(Bench::error("ScheduleInfo", &["a"]), "expected 'ELEMENT SHARE'");
        assert_eq!(Bench::error("ScheduleInfo", &["a 1"]), "no element named 'a'");
    }
}
