//! Handles a packet that has arrived at its server: triggers choose its destinations.

use std::time::Duration;

use super::{Datagrams, Job, Server};
use crate::id::Id;
use crate::message::Message;
use crate::wire::{Address, MOST_IDS, Packet, PacketOption, Trigger};

impl Server {
    /// Handles a packet for which this server is responsible; returns the packets for other ids.
    pub(super) fn here(&mut self, now: Duration, job: Job, out: &mut Datagrams) -> Vec<Job> {
        self.options(now, &job, out);
        if !job.data {
            return Vec::new();
        }
        let Some(id) = job.stack.first().copied() else { return Vec::new() };
        let matching = self.live(now, &id);
        if matching.is_empty() {
            return self.missing(now, &id, job, out);
        }
        let (hops, copies) = (job.hops_left.checked_sub(1), usize::from(job.copies));
        let (Some(hops_left), true) = (hops, copies > 0) else {
            self.counters.looping += 1;
            return Vec::new();
        };
        // Limits the number of all direct and indirect copies of a packet.
        let taken = matching.len().min(copies);
        self.counters.copies_over += (matching.len() - taken) as u64;
        let share = u16::try_from(copies / taken).unwrap_or(u16::MAX);
        let mut more = Vec::new();
        for trigger in matching.into_iter().take(taken) {
            match trigger.to {
                Address::Stack(ids) => {
                    if let Some(stack) = self.replaced(&ids, &job.stack) {
                        let previous = Some(self.ring.me().at);
                        more.push(Job {
                            hops_left,
                            copies: share,
                            previous,
                            sender: None,
                            stack,
                            options: Vec::new(),
                            wide: false,
                            data: true,
                            payload: job.payload.clone(),
                        });
                    }
                }
                // As in the public code, the host gets the whole stack with the matched id.
                host => {
                    self.counters.delivered += 1;
                    let packet = Packet::data(job.stack.clone(), &job.payload);
                    self.send_to_host(&host, packet.bytes(), out);
                }
            }
        }
        more
    }

    /// Replaces the first id of a packet by the ids of a trigger.
    fn replaced(&mut self, ids: &[Id], stack: &[Id]) -> Option<Vec<Id>> {
        let rest = stack.get(1..).unwrap_or_default();
        let stack = [ids, rest].concat();
        if stack.len() > MOST_IDS {
            self.counters.long_stacks += 1;
            return None;
        }
        Some(stack)
    }

    /// The triggers for a packet, without those to an id that was reported to have no triggers.
    fn live(&mut self, now: Duration, id: &Id) -> Vec<Trigger> {
        let mut matching = self.table.matching(now, id);
        let pushed_back = &self.pushed_back;
        let is_gone = |trigger: &Trigger| match &trigger.to {
            Address::Stack(ids) => ids
                .first()
                .and_then(|first| pushed_back.get(first))
                .is_some_and(|until| *until > now),
            _ => false,
        };
        let (gone, live): (Vec<Trigger>, Vec<Trigger>) = matching.drain(..).partition(is_gone);
        for trigger in gone {
            self.counters.pushed_back += 1;
            self.table.remove(&trigger.id, &trigger.to);
            self.copy(&trigger, Duration::ZERO);
        }
        live
    }

    /// Handles an id without a trigger: the packet is sent to the next id of its stack (a backup),
    /// or its sender gets an answer.
    fn missing(&mut self, now: Duration, id: &Id, job: Job, out: &mut Datagrams) -> Vec<Job> {
        if job.stack.len() > 1 {
            let Some(hops_left) = job.hops_left.checked_sub(1) else {
                self.counters.looping += 1;
                return Vec::new();
            };
            self.counters.backups += 1;
            let stack = job.stack[1..].to_vec();
            // This server has handled the options; the next one needs only the sender.
            let sender = job.sender.clone().map(PacketOption::Sender);
            return vec![Job { hops_left, stack, options: sender.into_iter().collect(), ..job }];
        }
        self.counters.missing += 1;
        if now < self.settled {
            return Vec::new();
        }
        match (job.previous, &job.sender) {
            (Some(at), _) if at == self.ring.me().at => {
                self.message(now, at, Message::PushBack(*id), out);
            }
            (Some(at), _) => self.send(at, &Message::PushBack(*id), out),
            (None, Some(sender)) => {
                let options = vec![PacketOption::NotPresent(*id)];
                self.answer(&sender.clone(), options, job.wide, out);
            }
            (None, None) => {}
        }
        Vec::new()
    }
}
