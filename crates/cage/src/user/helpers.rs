//! Helper calls. Results are the kernel's.

use crate::definition::MapKind;
use crate::user::checksum;
use crate::user::execute::{Next, Run, Stopped};
use crate::user::machine::{Cause, Target};
use crate::user::map::{EINVAL, ENOENT, MAX_KEY_BYTES, Map};
use crate::user::memory::{self, MAX_DEPTH};

const EFAULT: i64 = -14;
const EPERM: i64 = -1;
const EAGAIN: i64 = -11;
const E2BIG: i64 = -7;

/// Most tail calls for one frame.
const MAX_TAIL_CALLS: u32 = 33;
/// Most iterations of `bpf_loop`.
const MAX_LOOPS: u64 = 1 << 23;
/// Frames are shorter.
const MAX_OFFSET: u64 = 0xffff;
/// Verdicts.
const ABORTED: u64 = 0;
const REDIRECT: u64 = 4;
/// Flags of redirections: the verdict if there is no target.
const ACTION_MASK: u64 = 3;
const BROADCAST: u64 = 8;
const BUT_INGRESS: u64 = 16;
/// Bytes of a frame that are appended to a perf event: where the flags have their number.
const EVENT_FRAME_SHIFT: u32 = 32;
const EVENT_FRAME_MASK: u64 = 0xfffff;
/// Longest string that `bpf_strncmp` compares.
const MAX_STRING: u64 = 4096;

fn ok(value: i64) -> Result<Next, Stopped> {
    Ok(Next::Result(value.cast_unsigned()))
}

fn outside(address: u64, bytes: usize, write: bool) -> Stopped {
    Stopped::Here(Cause::Memory { address, bytes, write })
}

impl Run<'_, '_> {
    /// Calls a helper.
    #[inline(always)]
    pub(super) fn help(
        &mut self,
        helper: u64,
        arguments: [u64; 5],
        depth: usize,
    ) -> Result<Next, Stopped> {
        if helper == 1 {
            return self.map_lookup(arguments);
        }
        self.help_more(helper, arguments, depth)
    }

    #[inline(never)]
    fn help_more(
        &mut self,
        helper: u64,
        arguments: [u64; 5],
        depth: usize,
    ) -> Result<Next, Stopped> {
        let [a, b, c, d, e] = arguments;
        match helper {
            2 => self.map_update(arguments),
            3 => self.map_delete(arguments),
            // Monotonic, boot, coarse and international atomic time.
            5 | 125 | 160 | 208 => Ok(Next::Result(self.host.now_ns())),
            6 => self.print(a, b, [c, d, e]),
            7 => Ok(Next::Result(u64::from(self.host.random()))),
            // The number of the CPU and of its NUMA node; locks.
            8 | 42 | 93 | 94 => ok(0),
            12 => self.tail_call(b, c),
            23 => {
                self.target = Target::Device(a as u32);
                Ok(Next::Result(if b == 0 { REDIRECT } else { ABORTED }))
            }
            25 => self.event(b, c, d, e),
            28 => self.checksum_difference(arguments),
            44 => ok(self.memory.frame.adjust_head(b as i32)),
            51 => self.redirect_map(arguments),
            54 => ok(self.memory.frame.adjust_meta(b as i32)),
            65 => ok(self.memory.frame.adjust_tail(b as i32)),
            69 => self.fib_lookup(b, c, d),
            118 => Ok(Next::Result(self.host.now_ns() / 4_000_000)),
            130 => self.ring_output(arguments),
            131 => self.ring_reserve(a, b, c),
            132 | 133 => self.ring_finish(a, helper == 132),
            134 => self.ring_query(a, b),
            177 => self.print_many(a, b, c, d),
            181 => self.repeat(arguments, depth),
            182 => self.compare_strings(a, b, c),
            188 => Ok(Next::Result((self.memory.frame.end - self.memory.frame.start) as u64)),
            189 => self.load_bytes(b, c, d),
            190 => self.store_bytes(b, c, d),
            other => Err(Cause::Helper(other).into()),
        }
    }

    fn map(&self, address: u64) -> Result<(usize, &Map), Stopped> {
        let number = memory::map_number(address).ok_or(Cause::Argument(1))?;
        Ok((number, self.memory.maps.get(number).ok_or(Cause::Argument(1))?))
    }

    /// Copies a key into the scratch area.
    #[inline(always)]
    fn key(&mut self, address: u64, bytes: usize) -> Result<(), Stopped> {
        let from = self.memory.bytes(address, bytes).map_err(|_| outside(address, bytes, false))?;
        let to = self.scratch.get_mut(..bytes).ok_or(Cause::Argument(2))?;
        to.copy_from_slice(from);
        Ok(())
    }

    #[inline(always)]
    fn map_lookup(&mut self, [map, key, ..]: [u64; 5]) -> Result<Next, Stopped> {
        let (number, found) = self.map(map)?;
        let bytes = found.key_bytes();
        self.key(key, bytes)?;
        let map = self.memory.maps.get_mut(number).ok_or(Cause::Argument(1))?;
        let key = self.scratch.get(..bytes).unwrap_or_default();
        let value = map.find(key).map(|value| map.address_of(value));
        Ok(Next::Result(value.map_or(0, |offset| memory::value_address(number, offset))))
    }

    fn map_update(&mut self, [map, key, value, flags, _]: [u64; 5]) -> Result<Next, Stopped> {
        let (number, found) = self.map(map)?;
        let (key_bytes, value_bytes) = (found.key_bytes(), found.value_bytes());
        if found.is_read_only() {
            return ok(EPERM);
        }
        self.key(key, key_bytes)?;
        let from = self.memory.bytes(value, value_bytes);
        let from = from.map_err(|_| outside(value, value_bytes, false))?;
        let (keys, values) =
            self.scratch.split_at_mut_checked(MAX_KEY_BYTES).ok_or(Cause::Argument(3))?;
        let to = values.get_mut(..value_bytes).ok_or(Cause::Argument(3))?;
        to.copy_from_slice(from);
        let map = self.memory.maps.get_mut(number).ok_or(Cause::Argument(1))?;
        ok(map.update(keys.get(..key_bytes).unwrap_or_default(), to, flags))
    }

    fn map_delete(&mut self, [map, key, ..]: [u64; 5]) -> Result<Next, Stopped> {
        let (number, found) = self.map(map)?;
        let bytes = found.key_bytes();
        if found.is_read_only() {
            return ok(EPERM);
        }
        self.key(key, bytes)?;
        let map = self.memory.maps.get_mut(number).ok_or(Cause::Argument(1))?;
        ok(map.delete(self.scratch.get(..bytes).unwrap_or_default()))
    }

    fn tail_call(&mut self, map: u64, index: u64) -> Result<Next, Stopped> {
        let number = memory::map_number(map).ok_or(Cause::Argument(2))?;
        let map = self.memory.maps.get_mut(number).ok_or(Cause::Argument(2))?;
        if map.kind() != MapKind::ProgArray {
            return Err(Cause::Argument(2).into());
        }
        if self.tail_calls >= MAX_TAIL_CALLS {
            return ok(ENOENT);
        }
        let Some(place) = map.number_at(index as u32) else { return ok(ENOENT) };
        self.tail_calls += 1;
        Ok(Next::Tail(place as usize))
    }

    fn redirect_map(&mut self, [map, key, flags, ..]: [u64; 5]) -> Result<Next, Stopped> {
        let (number, found) = self.map(map)?;
        let to_devices = match found.kind() {
            MapKind::Devmap | MapKind::DevmapHash => true,
            MapKind::Cpumap | MapKind::Xskmap => false,
            _ => return Err(Cause::Argument(1).into()),
        };
        let known = if to_devices { ACTION_MASK | BROADCAST | BUT_INGRESS } else { ACTION_MASK };
        if flags & !known != 0 {
            return Ok(Next::Result(ABORTED));
        }
        if flags & BROADCAST != 0 {
            self.target = Target::Devices { map: number, but_ingress: flags & BUT_INGRESS != 0 };
            return Ok(Next::Result(REDIRECT));
        }
        let map = self.memory.maps.get_mut(number).ok_or(Cause::Argument(1))?;
        let Some(value) = map.number_at(key as u32) else {
            return Ok(Next::Result(flags & ACTION_MASK));
        };
        self.target = match map.kind() {
            MapKind::Cpumap => Target::Cpu(key as u32),
            MapKind::Xskmap => Target::Socket(value),
            _ => Target::Device(value),
        };
        Ok(Next::Result(REDIRECT))
    }

    fn fib_lookup(&mut self, parameters: u64, bytes: u64, flags: u64) -> Result<Next, Stopped> {
        if bytes < 64 {
            return ok(EINVAL);
        }
        let to = self.memory.bytes_mut(parameters, 64);
        let to = to.ok().and_then(|bytes| bytes.first_chunk_mut());
        let to: &mut [u8; 64] = to.ok_or_else(|| outside(parameters, 64, true))?;
        ok(self.host.fib_lookup(to, flags as u32))
    }

    fn checksum_difference(
        &mut self,
        [from, from_bytes, to, to_bytes, seed]: [u64; 5],
    ) -> Result<Next, Stopped> {
        if !(from_bytes | to_bytes).is_multiple_of(4) || from_bytes.max(to_bytes) > MAX_OFFSET {
            return ok(EINVAL);
        }
        let part = |address, bytes: u64| {
            let bytes = bytes as usize;
            let found = if bytes == 0 { Ok(&[][..]) } else { self.memory.bytes(address, bytes) };
            found.map_err(|_| outside(address, bytes, false))
        };
        let (from, to) = (part(from, from_bytes)?, part(to, to_bytes)?);
        Ok(Next::Result(checksum::difference(from, to, seed as u32)))
    }

    fn load_bytes(&mut self, offset: u64, to: u64, bytes: u64) -> Result<Next, Stopped> {
        let frame = &self.memory.frame;
        let (offset, bytes) = (offset as u32 as u64, bytes as u32 as u64);
        if offset > MAX_OFFSET || bytes > MAX_OFFSET {
            return ok(EFAULT);
        }
        let start = frame.start + offset as usize;
        if start + bytes as usize > frame.end {
            return ok(EINVAL);
        }
        for at in 0..bytes {
            let byte = self.memory.frame.buffer.get(start + at as usize).copied();
            let to = to.wrapping_add(at);
            let stored = self.memory.store::<1>(to, u64::from(byte.unwrap_or(0)));
            stored.map_err(|_| outside(to, 1, true))?;
        }
        ok(0)
    }

    fn store_bytes(&mut self, offset: u64, from: u64, bytes: u64) -> Result<Next, Stopped> {
        let (offset, bytes) = (offset as u32 as u64, bytes as u32 as u64);
        if offset > MAX_OFFSET || bytes > MAX_OFFSET {
            return ok(EFAULT);
        }
        let start = self.memory.frame.start + offset as usize;
        if start + bytes as usize > self.memory.frame.end {
            return ok(EINVAL);
        }
        for at in 0..bytes {
            let from = from.wrapping_add(at);
            let byte = self.memory.load::<1>(from).map_err(|_| outside(from, 1, false))?;
            if let Some(to) = self.memory.frame.buffer.get_mut(start + at as usize) {
                *to = byte as u8;
            }
        }
        ok(0)
    }

    /// `bpf_loop`.
    fn repeat(
        &mut self,
        [turns, function, with, flags, _]: [u64; 5],
        depth: usize,
    ) -> Result<Next, Stopped> {
        let turns = u64::from(turns as u32);
        if flags != 0 {
            return ok(EINVAL);
        }
        if turns > MAX_LOOPS {
            return ok(E2BIG);
        }
        let place = memory::function_place(function).ok_or(Cause::Argument(2))?;
        if depth + 1 >= MAX_DEPTH {
            return Err(Cause::Depth.into());
        }
        let bounds = self.functions.iter().find(|(start, _)| *start == place);
        let length = bounds.map_or(self.steps.len(), |(start, end)| end - start);
        for turn in 0..turns {
            let result = self.execute(place, [turn, with], depth + 1).map_err(Stopped::Inside)?;
            // Straight code takes no fuel itself.
            self.fuel -= length as i64;
            if self.fuel < 0 {
                return Err(Cause::Fuel.into());
            }
            if result != 0 {
                return Ok(Next::Result(turn + 1));
            }
        }
        Ok(Next::Result(turns))
    }

    fn compare_strings(&mut self, one: u64, bytes: u64, other: u64) -> Result<Next, Stopped> {
        for at in 0..bytes.min(MAX_STRING) {
            let byte = |address: u64| {
                let address = address.wrapping_add(at);
                self.memory.load::<1>(address).map_err(|_| outside(address, 1, false))
            };
            let (a, b) = (byte(one)?, byte(other)?);
            if a != b {
                return ok(if a < b { -1 } else { 1 });
            }
            if a == 0 {
                break;
            }
        }
        ok(0)
    }

    fn print(&mut self, format: u64, bytes: u64, arguments: [u64; 3]) -> Result<Next, Stopped> {
        let bytes = bytes.min(MAX_STRING) as usize;
        let text = self.memory.bytes(format, bytes).map_err(|_| outside(format, bytes, false))?;
        ok(self.trace.print(text, &arguments))
    }

    fn print_many(
        &mut self,
        format: u64,
        bytes: u64,
        from: u64,
        count: u64,
    ) -> Result<Next, Stopped> {
        let mut arguments = [0; 12];
        let count = (count / 8).min(arguments.len() as u64);
        for (place, at) in arguments.iter_mut().zip(0..count) {
            let address = from.wrapping_add(at * 8);
            *place = self.memory.load::<8>(address).map_err(|_| outside(address, 8, false))?;
        }
        let bytes = bytes.min(MAX_STRING) as usize;
        let text = self.memory.bytes(format, bytes).map_err(|_| outside(format, bytes, false))?;
        ok(self.trace.print(text, &arguments))
    }

    /// `bpf_perf_event_output`: the program's bytes, and the first bytes of the frame.
    fn event(&mut self, map: u64, flags: u64, data: u64, bytes: u64) -> Result<Next, Stopped> {
        let number = memory::map_number(map).ok_or(Cause::Argument(2))?;
        let of_frame = flags >> EVENT_FRAME_SHIFT & EVENT_FRAME_MASK;
        let frame = &self.memory.frame;
        let start = frame.start;
        if of_frame as usize > frame.end - frame.start || bytes > MAX_OFFSET {
            return ok(EFAULT);
        }
        let whole = (bytes + of_frame) as usize;
        let map = self.memory.maps.get_mut(number);
        if map.as_ref().is_none_or(|map| map.kind() != MapKind::PerfEventArray) {
            return Err(Cause::Argument(2).into());
        }
        let Some(place) = map.and_then(Map::ring).and_then(|ring| ring.reserve(whole)) else {
            return ok(EAGAIN);
        };
        self.copy_into_ring(number, place, data, bytes as usize)?;
        let maps = &mut *self.memory.maps;
        if let Some(ring) = maps.get_mut(number).and_then(Map::ring) {
            let from = self.memory.frame.buffer.get(start..start + of_frame as usize);
            let to = ring.bytes_mut(place + bytes as usize, of_frame as usize);
            if let (Some(from), Some(to)) = (from, to) {
                to.copy_from_slice(from);
            }
            ring.finish(place, true);
        }
        ok(0)
    }

    /// Copies the program's bytes into a record; ends the record if the program may not read them.
    fn copy_into_ring(
        &mut self,
        number: usize,
        place: usize,
        from: u64,
        bytes: usize,
    ) -> Result<(), Stopped> {
        for at in 0..bytes {
            let address = from.wrapping_add(at as u64);
            let byte = self.memory.load::<1>(address);
            let ring = self.memory.maps.get_mut(number).and_then(Map::ring);
            let Some(ring) = ring else { return Ok(()) };
            match (byte, ring.bytes_mut(place + at, 1)) {
                (Ok(byte), Some([to])) => *to = byte as u8,
                _ => {
                    ring.finish(place, false);
                    return Err(outside(address, 1, false));
                }
            }
        }
        Ok(())
    }

    fn ring_number(&self, address: u64) -> Result<usize, Stopped> {
        let (number, map) = self.map(address)?;
        match map.kind() {
            MapKind::Ringbuf => Ok(number),
            _ => Err(Cause::Argument(1).into()),
        }
    }

    fn ring_output(&mut self, [map, data, bytes, _, _]: [u64; 5]) -> Result<Next, Stopped> {
        let number = self.ring_number(map)?;
        let ring = self.memory.maps.get_mut(number).and_then(Map::ring);
        let bytes = bytes.min(u64::from(u32::MAX)) as usize;
        let Some(place) = ring.and_then(|ring| ring.reserve(bytes)) else { return ok(EAGAIN) };
        self.copy_into_ring(number, place, data, bytes)?;
        if let Some(ring) = self.memory.maps.get_mut(number).and_then(Map::ring) {
            ring.finish(place, true);
        }
        ok(0)
    }

    fn ring_reserve(&mut self, map: u64, bytes: u64, flags: u64) -> Result<Next, Stopped> {
        let number = self.ring_number(map)?;
        let bytes = bytes.min(u64::from(u32::MAX)) as usize;
        if flags != 0 {
            return ok(0);
        }
        let ring = self.memory.maps.get_mut(number).and_then(Map::ring);
        let place = ring.and_then(|ring| ring.reserve(bytes));
        Ok(Next::Result(place.map_or(0, |place| memory::value_address(number, place as u64))))
    }

    fn ring_finish(&mut self, address: u64, keep: bool) -> Result<Next, Stopped> {
        let (number, offset) = memory::value_place(address).ok_or(Cause::Argument(1))?;
        let ring = self.memory.maps.get_mut(number).and_then(Map::ring);
        if ring.is_some_and(|ring| ring.finish(offset, keep)) {
            ok(0)
        } else {
            Err(Cause::Argument(1).into())
        }
    }

    fn ring_query(&mut self, map: u64, flags: u64) -> Result<Next, Stopped> {
        let number = self.ring_number(map)?;
        let Some(ring) = self.memory.maps.get_mut(number).and_then(Map::ring) else { return ok(0) };
        let (read, written) = ring.positions();
        Ok(Next::Result(match flags {
            0 => ring.waiting() as u64,
            1 => ring.size() as u64,
            2 => read as u64,
            3 => written as u64,
            _ => 0,
        }))
    }
}
