//! `my-click`: Europa with an element of this crate.
//!
//! An element is a type with two traits: [`europa_engine::Class`] gives its name and ports, and
//! [`europa_engine::Element`] implements its work. `main` adds it to the elements of Europa;
//! configurations then use it like any other. The program is a `click` program:
//!
//! ```sh
//! my-click -e 'InfiniteSource(LIMIT 100, STOP true) -> Every(10) -> c :: Counter -> Discard' -h c.count
//! ```
//!
//! It is also the data plane of a router whose document names it:
//!
//! ```yaml
//! fast_path:
//!   elements: ./target/release/my-click
//!   click: FromDevice(left) -> Every(2) -> ToDevice(right)
//! ```

mod every;

use std::process::ExitCode;

fn main() -> ExitCode {
    europa_driver::main(|registry| registry.add::<every::Every>())
}
