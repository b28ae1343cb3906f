//! The messages of the kernel's verifier, in plain words.
//!
//! A log ends with the reason of a refusal, in words that differ between kernels. The table below
//! has the most common ones, in the wording of Linux 5.15 to 6.18.

use crate::problem::{Place, Problem};

/// One reason.
struct Reason {
    /// Texts that its line contains, all of one of these alternatives.
    says: &'static [&'static [&'static str]],
    what: &'static str,
    remedy: &'static str,
}

/// The reasons; the first that fits counts.
const REASONS: &[Reason] = &[
    Reason {
        says: &[&["invalid access to packet"], &["offset is outside of the packet"]],
        what: "the frame is read or written beyond what was compared with `data_end`",
        remedy: "before the access: `if (pointer + 1 > data_end) return XDP_DROP;` with the same \
                 pointer; after `bpf_xdp_adjust_head` and the like, read `ctx->data` and \
                 `ctx->data_end` anew",
    },
    Reason {
        says: &[
            &["invalid mem access 'map_value_or_null'"],
            &["invalid mem access 'ptr_map_value_or_null'"],
        ],
        what: "the result of `bpf_map_lookup_elem` is used without asking whether it is NULL",
        remedy: "`if (!value) return XDP_ABORTED;` right after the look-up",
    },
    Reason {
        says: &[&["invalid mem access", "mem_or_null"], &["invalid mem access", "_or_null"]],
        what: "a pointer that may be NULL is used without asking",
        remedy: "`if (!pointer) return XDP_ABORTED;` right after the call that returns it",
    },
    Reason {
        says: &[&["invalid access to map value"], &["invalid access to memory, mem_size"]],
        what: "a map's value is read or written beyond its end",
        remedy: "compare the index with the size before the access, as an unsigned number: \
                 `if (index >= SIZE) return XDP_ABORTED;`",
    },
    Reason {
        says: &[&["math between", "pointer and"]],
        what: "a pointer is moved by a number that may be too large or negative",
        remedy: "limit the number first: `if (n > 1500) return XDP_DROP;`, as an unsigned one",
    },
    Reason {
        says: &[
            &["unbounded memory access"],
            &["unbounded min value"],
            &["invalid unbounded variable-offset"],
        ],
        what: "an index or length has no limit that the verifier can see",
        remedy: "limit it right before its use: `if (n > MAX) return XDP_DROP;`, or `n &= MAX - 1;` \
                 with a power of two; the compiler may have put the comparison on another copy of \
                 the number: use the compared variable",
    },
    Reason {
        says: &[&["min value is negative"]],
        what: "an index or length could be negative",
        remedy: "make it unsigned (`__u32`), or compare it with 0 first",
    },
    Reason {
        says: &[&["infinite loop detected"], &["back-edge from insn"]],
        what: "a loop has no end that the verifier can see",
        remedy: "give it a constant limit: `for (int i = 0; i < 64; i++)` with `break` inside",
    },
    Reason {
        says: &[
            &["BPF program is too large. Processed"],
            &["The sequence of", "jumps is too complex"],
        ],
        what: "the program has too many paths to check",
        remedy: "make loops shorter, move their bodies into functions marked `__noinline`, or split \
                 the program with tail calls",
    },
    Reason {
        says: &[&["program of this type cannot use helper"], &["unknown func"], &["invalid func"]],
        what: "XDP programs cannot call this helper",
        remedy: "docs/xdp.md lists the helpers that programs may call",
    },
    Reason {
        says: &[&["cannot call GPL-restricted function"], &["cannot call GPL only function"]],
        what: "the helper is for programs with a licence that is compatible with the GPL",
        remedy: "`char LICENSE[] SEC(\"license\") = \"Dual MIT/GPL\";`, if that is what it has",
    },
    Reason {
        says: &[&["helper access to the packet is not allowed"]],
        what: "this helper does not take a pointer into the frame",
        remedy: "copy the bytes to a variable of the function first",
    },
    Reason {
        says: &[&["!read_ok"]],
        what: "a variable or result is used that has no value on some path",
        remedy: "set it where it is declared; the frame's pointers end with a call of \
                 `bpf_xdp_adjust_*`; a function that returns nothing has no result",
    },
    Reason {
        says: &[
            &["invalid indirect read from stack"],
            &["invalid read from stack"],
            &["invalid size of register fill"],
        ],
        what: "a helper is given a structure of which bytes were never written, often the gaps \
               between its members",
        remedy: "clear it first: `struct key key = {};`, or `__builtin_memset(&key, 0, sizeof(key))`",
    },
    Reason {
        says: &[
            &["invalid write to stack"],
            &["invalid stack type"],
            &["invalid variable-offset"],
            &["invalid indirect access to stack"],
        ],
        what: "the stack is written or read beyond its 512 bytes, or beyond a variable",
        remedy: "keep large structures in a per-CPU array of one entry, and compare indices with \
                 the size of the array",
    },
    Reason {
        says: &[&["combined stack size of"], &["Looks like the BPF stack limit"]],
        what: "functions that call each other need more than 512 bytes of stack together",
        remedy: "keep large variables in a per-CPU array of one entry, or mark the functions \
                 `__always_inline`",
    },
    Reason {
        says: &[
            &["the call stack of", "frames is too deep"],
            &["recursive call"],
            &["back-edge from insn", "call"],
        ],
        what: "functions call each other more than 8 deep, or themselves",
        remedy: "make a loop of it",
    },
    Reason {
        says: &[&["tail_calls are not allowed"], &["tail_call", "not allowed"]],
        what: "a tail call is not possible here: with functions that need much stack, or where a \
               lock or reference is held",
        remedy: "call `bpf_tail_call` from the function marked `SEC(\"xdp\")`, with less than 256 \
                 bytes of stack in use",
    },
    Reason {
        says: &[&["dereference of modified ctx ptr"], &["dereference of modified", "ctx"]],
        what: "the context is accessed at a place that was calculated",
        remedy: "name the members: `ctx->data`, `ctx->ingress_ifindex`",
    },
    Reason {
        says: &[&["invalid bpf_context access"]],
        what: "the context has no member at this place, or it cannot be written",
        remedy: "members: data, data_end, data_meta, ingress_ifindex, rx_queue_index, \
                 egress_ifindex, all of 32 bits and only to be read",
    },
    Reason {
        says: &[&["write into map forbidden"], &["cannot write into", "rdonly"]],
        what: "a constant is written, or a map that programs may not write",
        remedy: "make a constant a variable, without `const`; device, CPU and socket maps and \
                 program arrays are filled from outside",
    },
    Reason {
        says: &[
            &["pointer arithmetic", "prohibited"],
            &["bitwise operator", "pointer prohibited"],
            &["on pointer prohibited"],
            &["32-bit pointer arithmetic"],
            &["pointer comparison prohibited"],
        ],
        what: "an operation on a pointer that is not allowed: pointers are only moved by numbers, \
               and subtracted from each other",
        remedy: "calculate with offsets, as `__u64`, and add them to the pointer at the end",
    },
    Reason {
        says: &[&["leaks addr"]],
        what: "an address of the kernel would be stored or returned as a number",
        remedy: "store the number or the bytes that are meant, not the pointer",
    },
    Reason {
        says: &[
            &["Unreleased reference"],
            &["reference leak"],
            &["tail_call would lead to reference leak"],
        ],
        what: "what a helper handed out is not given back on some path",
        remedy: "call `bpf_ringbuf_submit`, `bpf_ringbuf_discard` or `bpf_sk_release` on every path",
    },
    Reason {
        says: &[&["cannot pass map_type"]],
        what: "this helper does not take a map of this type",
        remedy: "`bpf_redirect_map` takes device, CPU and socket maps, `bpf_tail_call` program \
                 arrays, `bpf_map_lookup_elem` arrays, hashes and tries",
    },
    Reason {
        says: &[
            &["atomic", "is not allowed"],
            &["BPF_ATOMIC stores into"],
            &["BPF_XADD stores into"],
        ],
        what: "an atomic operation on something that is not a map's value or the stack",
        remedy: "change a copy of the number, and write it back",
    },
    Reason {
        says: &[&["Possibly NULL pointer passed"], &["expected=", "_or_null"]],
        what: "a helper is given a pointer that may be NULL",
        remedy: "ask first: `if (!pointer) return XDP_ABORTED;`",
    },
    Reason {
        says: &[&["type=", "expected="]],
        what: "a helper's argument is of the wrong kind",
        remedy: "compare the call with the helper's declaration: maps by `&map`, keys and values \
                 by the address of a variable",
    },
    Reason {
        says: &[&["unreachable insn"], &["last insn is not an exit"], &["jump out of range"]],
        what: "a path does not end with `return`, or can never be reached",
        remedy: "return a verdict on every path; remove code after an endless loop",
    },
    Reason {
        says: &[&["invalid mem access 'scalar'"], &["invalid mem access 'inv'"]],
        what: "a number is used as a pointer",
        remedy: "reach memory through `ctx->data`, a map's value or a variable; a pointer that was \
                 kept in a map, or combined with a number of unknown size, is only a number",
    },
    Reason {
        says: &[
            &["Caller passes invalid args into"],
            &["arg#", "reference type"],
            &["Arg#", "expected pointer"],
        ],
        what: "a function that is not `static` takes an argument that the verifier cannot follow",
        remedy: "make the function `static`",
    },
    Reason {
        says: &[&["has value", "should have been in"], &["has", "should have been in"]],
        what: "a result is not in the range that is wanted here",
        remedy: "a callback of `bpf_loop` returns 0 or 1",
    },
];

/// Why the kernel refused a program. `place` gives the source line of an instruction; the log's own
/// notes are the fallback.
pub fn explain(log: &str, place: impl Fn(usize) -> Option<Place>) -> Problem {
    let mut at = None;
    let mut note = None;
    let mut found: Option<(&Reason, &str)> = None;
    let mut last = "";
    for line in log.lines() {
        let line = line.trim_end();
        if let Some(text) = line.strip_prefix("; ") {
            note = Some(text);
            continue;
        }
        if let Some(number) = instruction(line) {
            // The message before was only a note.
            (at, found) = (Some(number), None);
            continue;
        }
        if line.is_empty() || line.starts_with("processed ") || line.starts_with("-- ") {
            continue;
        }
        last = line;
        if found.is_none() {
            found = REASONS.iter().find(|reason| reason.fits(line)).map(|reason| (reason, line));
        }
    }
    let (what, remedy) = match found {
        Some((reason, line)) => (format!("{} (verifier: {line})", reason.what), reason.remedy),
        None => (format!("the verifier refuses the program: {last}"), ""),
    };
    let place = at.and_then(place).or_else(|| note.and_then(from_note));
    Problem { place: place.map(Box::new), ..Problem::new(what, remedy) }
}

impl Reason {
    fn fits(&self, line: &str) -> bool {
        self.says.iter().any(|parts| parts.iter().all(|part| line.contains(part)))
    }
}

/// The number in a line like `12: (71) r0 = *(u8 *)(r1 +60)`.
fn instruction(line: &str) -> Option<usize> {
    let (number, rest) = line.split_once(": (")?;
    let code = rest.get(..2)?;
    let is_code = code.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_code { number.parse().ok() } else { None }
}

/// The place in a note like `return data[60]; @ program.c:12`, as kernels since 6.10 write it.
fn from_note(note: &str) -> Option<Place> {
    let (text, place) = note.rsplit_once(" @ ").unwrap_or((note, ""));
    let (file, line) = place.rsplit_once(':').unwrap_or(("", ""));
    Some(Place {
        file: if file.is_empty() { "the program".to_owned() } else { file.to_owned() },
        line: line.parse().unwrap_or(0),
        column: 0,
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_logs() {
        for (log, what, line) in [
            (
                "; return data[60];\n12: (71) r0 = *(u8 *)(r1 +60)\ninvalid access to packet, \
                 off=60 size=1, R1(id=0,off=60,r=0)\nR1 offset is outside of the packet\n\
                 processed 3 insns (limit 1000000)",
                "beyond what was compared with `data_end` (verifier: invalid access to packet",
                0,
            ),
            (
                "0: R1=ctx() R10=fp0\n; return *value; @ p.c:9\n7: (61) r0 = *(u32 *)(r0 +0)\n\
                 R0 invalid mem access 'map_value_or_null'\nprocessed 8 insns",
                "without asking whether it is NULL",
                9,
            ),
            (
                "5: (71) r0 = *(u8 *)(r1 +0)\nR1 invalid mem access 'inv'",
                "a number is used as a pointer",
                0,
            ),
            ("back-edge from insn 9 to 3\n", "a loop has no end", 0),
            (
                "3: (85) call bpf_spin_lock#93\nsomething new\n",
                "refuses the program: something new",
                0,
            ),
        ] {
            let problem = explain(log, |_| None);
            assert!(problem.what.contains(what), "{problem}");
            assert_eq!(problem.place.map_or(0, |place| place.line), line, "{log}");
        }
    }

    #[test]
    fn the_authors_line_is_asked_for() {
        let place = Place { file: "a.c".into(), line: 7, column: 3, text: "\tx();".into() };
        let log = "7: (61) r0 = *(u32 *)(r0 +0)\nR0 !read_ok\n";
        let problem = explain(log, |at| (at == 7).then(|| place.clone()));
        assert!(problem.to_string().starts_with("a.c:7:3: a variable or result"), "{problem}");
    }
}
