//! `europa compile`: C to an eBPF object, by clang in a sandbox.
//!
//! The source is not trusted. clang runs in a process of its own. It can read the system's headers,
//! the headers for eBPF, and the folders of the command line; `#include "/etc/shadow"` and
//! `.incbin` find no other file. It writes to a pipe.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use clap::Args;
use europa_sandbox::{ToolLimits, lock_tool};

use crate::check;
use crate::exit::Failure;

/// Longest that clang may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest object, and longest list of messages.
const MAX_OUTPUT: u64 = 16 << 20;
const MAX_MESSAGES: u64 = 1 << 18;
const LIMITS: ToolLimits = ToolLimits { cpu_seconds: 30, address_space_bytes: 4 << 30 };

/// Arguments of `compile`.
#[derive(Args, Debug)]
pub(crate) struct CompileArgs {
    /// The source, in C.
    file: PathBuf,
    /// The object to write. Default: in the source's folder, with the ending `.o`.
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// Flags for clang.
#[derive(Args, Debug, Default)]
pub(crate) struct Flags {
    /// Define a macro.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// A further folder with headers.
    #[arg(short = 'I', value_name = "FOLDER")]
    include: Vec<PathBuf>,
}

/// Compiles a source, checks the object, and writes it.
pub(crate) fn compile(args: &CompileArgs) -> Result<ExitCode, Failure> {
    let object = object_of(&args.file, &args.flags)?;
    check::check_object(&object, &args.file, None, false)?;
    let output = args.output.clone().unwrap_or_else(|| args.file.with_extension("o"));
    let failed = |error: io::Error| format!("{}: {error}", output.display());
    fs::write(&output, object).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// The object of a source.
pub(crate) fn object_of(source: &Path, flags: &Flags) -> Result<Vec<u8>, Failure> {
    let place = |path: &Path| {
        fs::canonicalize(path)
            .map_err(|error| Failure::from(format!("{}: {error}", path.display())))
    };
    let own = place(source)?;
    let folder = own.parent().ok_or("the source lies in no folder")?;
    let headers = headers()?;
    let mut readable = vec![folder.to_owned(), headers.path().to_owned()];
    for folder in &flags.include {
        readable.push(place(folder)?);
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg("compiler");
    for folder in &readable {
        command.arg("--read").arg(folder);
    }
    command.args(["--", "clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall"]);
    // Paths in messages are those that were typed.
    command.args(["-fno-color-diagnostics", "-c", "-o", "-"]);
    // Where Debian keeps headers of the machine's architecture, which clang does not search when
    // it compiles for eBPF.
    command.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
    command.arg("-I").arg(headers.path());
    let target = if cfg!(target_arch = "x86_64") { "x86" } else { "arm64" };
    command.arg(format!("-D__TARGET_ARCH_{target}"));
    for folder in readable.iter().skip(2) {
        command.arg("-I").arg(folder);
    }
    command.args(flags.define.iter().map(|define| format!("-D{define}")));
    command.arg(source);
    let (object, messages, ended_well) = run(command)?;
    if !ended_well {
        return Err(Failure::configuration(messages));
    }
    eprint!("{messages}");
    Ok(object)
}

/// The headers that programs include as `<bpf/...>`.
fn headers() -> Result<tempfile::TempDir, Failure> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("bpf"))?;
    for (name, text) in libbpf_sys::API_HEADERS {
        fs::write(folder.path().join("bpf").join(name), text)?;
    }
    // The C library's headers ask for this one when the machine is not theirs; Debian has it only
    // beside its libraries for 32 bits.
    fs::create_dir(folder.path().join("gnu"))?;
    fs::write(folder.path().join("gnu/stubs-32.h"), "")?;
    Ok(folder)
}

/// Runs a command to its end: its output, its messages, and whether it ended well.
fn run(mut command: Command) -> Result<(Vec<u8>, String, bool), Failure> {
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/local/bin").env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let collect = |from: Option<Box<dyn Read + Send>>, most: u64| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = from.map(|from| from.take(most).read_to_end(&mut bytes));
            read.transpose().map(|_| bytes)
        })
    };
    let output = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let messages = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let (output, messages) = (collect(output, MAX_OUTPUT), collect(messages, MAX_MESSAGES));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Err(format!("clang did not end within {PATIENCE:?}").into());
        }
        sleep(Duration::from_millis(5));
    };
    let ended = |thread: thread::JoinHandle<io::Result<Vec<u8>>>| -> Result<Vec<u8>, Failure> {
        Ok(thread.join().map_err(|_| "reading what clang wrote failed")??)
    };
    let (output, messages) = (ended(output)?, ended(messages)?);
    let mut messages = String::from_utf8_lossy(&messages).into_owned();
    if !status.success() && messages.trim().is_empty() {
        messages = format!("clang ended without a message: {status}");
    }
    Ok((output, messages, status.success()))
}

/// The process that becomes clang.
pub(crate) fn compiler(readable: &[PathBuf], command: &[String]) -> Result<ExitCode, Failure> {
    let (program, arguments) = command.split_first().ok_or("there is no command")?;
    lock_tool(readable, &LIMITS).map_err(|error| error.to_string())?;
    let error = Command::new(program).args(arguments).exec();
    let help = "install clang (Debian: `apt install clang`)";
    Err(match error.kind() {
        io::ErrorKind::NotFound => format!("{program} was not found; {help}").into(),
        _ => Failure::execution(program, &error),
    })
}
