//! Schedules turns by tickets: stride scheduling.

use europa_engine::{Arguments, ConfigError, Element, HandlerError, handlers, parse};

/// Most tickets of a port.
const MAX_TICKETS: u32 = 1 << 15;
/// The stride of a port with one ticket.
const LONGEST_STRIDE: u32 = 1 << 16;

/// A port's share. With more tickets it advances less in each turn; the port that has advanced
/// least is next.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    tickets: u32,
    stride: u32,
    pass: u64,
    /// The last turn in which this port was tried.
    asked: u64,
}

impl Share {
    fn set(&mut self, tickets: u32) {
        self.tickets = tickets;
        self.stride = LONGEST_STRIDE.checked_div(tickets).unwrap_or(0);
    }
}

/// Ports with tickets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strides {
    shares: Vec<Share>,
    /// Number of the current turn.
    turn: u64,
}

impl Strides {
    /// Sets an argument for each of the ports.
    pub(crate) fn set_all(
        &mut self,
        texts: Vec<(usize, &str)>,
        arguments: &mut Arguments<'_>,
        ports: usize,
        kind: &str,
    ) -> Result<(), ConfigError> {
        if texts.len() != ports {
            let message = format!("need {ports} arguments, one per {kind} port");
            return Err(ConfigError::other(message));
        }
        for (index, text) in texts {
            let mut share = Share::default();
            match arguments.value::<u32>("TICKETS", index, text) {
                Ok(tickets) if tickets > MAX_TICKETS => {
                    arguments.warn(format!("{kind} {index}'s tickets reduced to {MAX_TICKETS}"));
                    share.set(MAX_TICKETS);
                }
                Ok(tickets) => share.set(tickets),
                Err(_) => {
                    let message = format!("argument {index} should be number of tickets (integer)");
                    arguments.error(ConfigError::at(index, message));
                }
            }
            // Every port counts as having had one turn, so the first turns already differ by
            // tickets.
            share.pass = share.stride.into();
            self.shares.push(share);
        }
        Ok(())
    }

    /// Selects the next port. Ports for which `has` is false lose their turn, so that they do not
    /// save turns; `None` if all are empty.
    pub(crate) fn next(&mut self, mut has: impl FnMut(usize) -> bool) -> Option<usize> {
        self.turn += 1;
        loop {
            let turn = self.turn;
            let shares = self.shares.iter_mut().enumerate();
            let open = shares.filter(|(_, share)| share.tickets > 0 && share.asked != turn);
            let (port, share) = open.min_by_key(|(_, share)| share.pass)?;
            share.asked = turn;
            share.pass += u64::from(share.stride);
            if has(port) {
                return Some(port);
            }
        }
    }

    fn port(&self, handler: &str) -> Result<usize, HandlerError> {
        let number = handler.strip_prefix("tickets").and_then(|number| number.parse().ok());
        number
            .filter(|port| *port < self.shares.len())
            .ok_or_else(|| HandlerError::NotFound(handler.to_owned()))
    }

    /// The tickets of the port that a handler names.
    fn tickets(&self, handler: &str) -> Result<String, HandlerError> {
        let port = self.port(handler)?;
        Ok(self.shares.get(port).map_or(0, |share| share.tickets).to_string())
    }

    /// Sets a port's tickets.
    fn set_tickets(&mut self, handler: &str, value: &str) -> Result<(), HandlerError> {
        let port = self.port(handler)?;
        let tickets = parse::<u32>(handler, value)?.min(MAX_TICKETS);
        let least =
            self.shares.iter().filter(|share| share.tickets > 0).map(|share| share.pass).min();
        if let Some(share) = self.shares.get_mut(port) {
            let joins = share.tickets == 0;
            share.set(tickets);
            if joins {
                share.pass = least.unwrap_or(0) + u64::from(share.stride);
            }
        }
        Ok(())
    }
}

/// The handlers of elements whose ports have tickets: one for each of the first ports.
impl Element for Strides {
    handlers! { this, context, value, name;
        both "tickets0" => this.tickets(name)?, set this.set_tickets(name, value)?;
        both "tickets1" => this.tickets(name)?, set this.set_tickets(name, value)?;
        both "tickets2" => this.tickets(name)?, set this.set_tickets(name, value)?;
        both "tickets3" => this.tickets(name)?, set this.set_tickets(name, value)?;
        both "tickets4" => this.tickets(name)?, set this.set_tickets(name, value)?;
        both "tickets5" => this.tickets(name)?, set this.set_tickets(name, value)?;
        both "tickets6" => this.tickets(name)?, set this.set_tickets(name, value)?;
        both "tickets7" => this.tickets(name)?, set this.set_tickets(name, value)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_many_ports_are_asked_once_a_turn() {
        let mut strides = Strides::default();
        for _ in 0..100 {
            let mut share = Share::default();
            share.set(1);
            strides.shares.push(share);
        }
        let mut asked = [0; 100];
        assert_eq!(
            strides.next(|port| {
                asked[port] += 1;
                false
            }),
            None
        );
        assert_eq!(asked, [1; 100]);
        assert_eq!(strides.next(|port| port == 99), Some(99));
    }
}
