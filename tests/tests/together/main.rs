//! Tests that mostly wait, and neither measure nor look for remains. They run beside each other;
//! all other tests have the machine for themselves.

mod adopt_hosts;
mod bridge;
mod click_devices;
mod command_line;
mod control;
mod devices;
mod engines;
mod filters;
mod filters_inside;
mod flows;
mod gallery;
mod grants;
mod hosts;
mod i3;
mod images;
mod import;
mod kinds;
#[path = "../line/mod.rs"]
mod line;
mod matches;
mod mpeg;
mod own_elements;
mod own_keys;
mod pages;
mod programs;
mod sdk_programs;
mod ssh;
mod stand_ins;
mod tunnels;
mod uplink;
mod users;
#[path = "../wire/mod.rs"]
mod wire;
