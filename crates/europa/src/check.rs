//! `europa check`: finds the mistakes of an XDP program, without a node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use europa_cage::kernel::{Rights, Settings};
use europa_cage::user::{Machine, Setup};
use europa_cage::{Object, Problem, Problems, link_with_stages};
use europa_node::try_in_kernel;
use nix::unistd::geteuid;

use crate::compile::{self, Flags};
use crate::exit::Failure;

/// Arguments of `check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// A source in C, or an object.
    file: PathBuf,
    /// Check this program only: the name of its function or section.
    #[arg(short, long)]
    program: Option<String>,
    /// Do not ask this machine's kernel, which only root may do.
    #[arg(long)]
    user_mode: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Checks a file.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let is_source = args.file.extension().is_some_and(|ending| ending == "c");
    let object = if is_source {
        compile::object_of(&args.file, &args.flags)?
    } else {
        let failed = |error| format!("{}: {error}", args.file.display());
        fs::read(&args.file).map_err(failed)?
    };
    let kernel = !args.user_mode && geteuid().is_root();
    check_object(&object, &args.file, args.program.as_deref(), kernel)?;
    Ok(ExitCode::SUCCESS)
}

/// Checks an object's programs, and prints a line about each.
///
/// # Errors
/// All mistakes of all of them.
pub(crate) fn check_object(
    file: &[u8],
    name: &Path,
    only: Option<&str>,
    kernel: bool,
) -> Result<(), Failure> {
    let failed = |problems: Problems| {
        let count = problems.0.len();
        let plural = if count == 1 { "mistake" } else { "mistakes" };
        Failure::configuration(format!("{}: {count} {plural}\n{problems}", name.display()))
    };
    let object = Object::read(file).map_err(failed)?;
    let mut found: Vec<Problem> = Vec::new();
    let mut lines = Vec::new();
    for number in wanted(&object, only).map_err(|problem| failed(problem.into()))? {
        match describe(file, &object, number, kernel) {
            Ok(line) => lines.push(line),
            Err(problems) => {
                let new = problems.0.into_iter().filter(|problem| !found.contains(problem));
                let new: Vec<Problem> = new.collect();
                found.extend(new);
            }
        }
    }
    if !found.is_empty() {
        return Err(failed(Problems(found)));
    }
    for line in lines {
        println!("{line}");
    }
    Ok(())
}

/// The selected programs: the one with this name, or those of type XDP, or all if the object has no
/// types.
fn wanted(object: &Object, only: Option<&str>) -> Result<Vec<usize>, Problem> {
    if only.is_some() {
        return Ok(vec![object.program(only)?]);
    }
    let programs = || (0..).zip(&object.functions).filter(|(_, function)| function.program);
    let xdp = programs().filter(|(_, function)| object.section_of(function).starts_with("xdp"));
    let xdp: Vec<usize> = xdp.map(|(number, _)| number).collect();
    Ok(if xdp.is_empty() { programs().map(|(number, _)| number).collect() } else { xdp })
}

/// One line about a program that has no mistake.
fn describe(file: &[u8], object: &Object, number: usize, kernel: bool) -> Result<String, Problems> {
    let (linked, _) = link_with_stages(object, number)?;
    Machine::new(object, &linked, &Setup::default())?;
    let maps: Vec<&str> = object
        .maps
        .iter()
        .zip(&linked.used)
        .filter(|(map, used)| **used && map.data.is_none())
        .map(|(map, _)| map.name.as_str())
        .collect();
    let function = object.functions.get(number);
    let (name, section) = function.map_or(("", ""), |of| (of.name.as_str(), object.section_of(of)));
    let verdict = if kernel { ask(file, name)? } else { "" };
    let maps =
        if maps.is_empty() { "no maps".to_owned() } else { format!("maps {}", maps.join(", ")) };
    Ok(format!(
        "program {name} (section {section}): {} instructions, {maps}; runs in the element XDP{verdict}",
        linked.code.len()
    ))
}

/// Asks this machine's kernel about a program: first as a tenant's program, then as an operator's.
fn ask(file: &[u8], program: &str) -> Result<&'static str, Problems> {
    let settings = || Settings { program: Some(program.to_owned()), ..Settings::default() };
    if try_in_kernel(file, settings(), Rights::Tenant).is_ok() {
        return Ok(", and in the kernel");
    }
    try_in_kernel(file, settings(), Rights::Operator)?;
    Ok(", and in the kernel with `programs: operator`")
}
