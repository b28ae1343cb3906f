//! Makes a thousand files with one mistake each. The check reports every mistake at its place, with
//! a remedy, quickly and in few lines.

mod mutants;

use std::path::Path;
use std::time::{Duration, Instant};

use europa_api::{MOST_PROBLEMS, Problem, Source, parse};
use mutants::mutants;

/// Number of attempts, enough for a thousand invalid files.
const TRIED: usize = 2200;
const WANTED: usize = 1000;
/// Time limit for one file: the longest takes a tenth of it on an idle machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// The missing part of a message.
fn lacks(problem: &Problem, text: &str) -> Option<&'static str> {
    let underlined = text.get(problem.place.start as usize..problem.place.end as usize);
    match underlined {
        None => return Some("its place is not in the file"),
        // A file that is empty or ends too early has no text to underline at its end.
        Some("")
            if text.get(problem.place.start as usize..).is_some_and(|r| !r.trim().is_empty()) =>
        {
            return Some("nothing is underlined");
        }
        Some(underlined) if underlined.contains('\n') => {
            return Some("several lines are underlined");
        }
        Some(_) => {}
    }
    let (line, column) = problem.line_column();
    if line == 0 || column == 0 || line > text.split('\n').count() {
        return Some("its line is not in the file");
    }
    if problem.message.trim().is_empty() || problem.message.contains('\n') {
        return Some("it has no message of one line");
    }
    if problem.label.trim().is_empty() {
        return Some("it says nothing at the place");
    }
    // Words of the underlying libraries, which mean nothing to a user.
    let foreign = [
        "serde",
        "deserialize",
        "Deserializ",
        "visitor",
        "invalid type",
        "untagged",
        "budget",
        "Options",
    ];
    if foreign.iter().any(|word| problem.message.contains(word)) {
        return Some("it speaks of a library");
    }
    None
}

#[test]
fn a_thousand_wrong_files_give_clear_errors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let (mut wrong, mut helped, mut most, mut slowest) = (0, 0, 0, Duration::ZERO);
    let mut complaints = Vec::new();
    for mutant in mutants(&folder, TRIED) {
        let source = Source { path: "wrong.yaml".into(), text: mutant.text.clone() };
        let start = Instant::now();
        let parsed = parse(&[source]);
        let took = start.elapsed();
        slowest = slowest.max(took);
        if took > PATIENCE {
            complaints.push(format!("{}: it takes {took:?}", mutant.what));
        }
        let problems = match parsed {
            Err(problems) => problems,
            Ok(_) if mutant.wrong => {
                complaints.push(format!("{}: it is taken for right\n{}", mutant.what, mutant.text));
                continue;
            }
            Ok(_) => continue,
        };
        wrong += 1;
        most = most.max(problems.iter().len());
        if problems.iter().len() == 0 || problems.iter().len() > MOST_PROBLEMS + 1 {
            complaints.push(format!("{}: {} mistakes", mutant.what, problems.iter().len()));
        }
        let report = problems.render(false);
        for problem in problems.iter() {
            helped += usize::from(problem.help.is_some());
            if let Some(lack) = lacks(problem, &mutant.text) {
                complaints.push(format!("{}: {lack}: {problem}", mutant.what));
            }
        }
        if report.matches("wrong.yaml:").count() < problems.iter().len() {
            complaints.push(format!("{}: a place is missing\n{report}", mutant.what));
        }
        if std::env::var_os("SHOW").is_some() && wrong % 17 == 0 {
            eprintln!("== {}\n{report}", mutant.what);
        }
    }
    eprintln!(
        "{wrong} wrong files of {TRIED}; at most {most} mistakes told of one, {helped} with a \
         hint; the slowest took {slowest:?}"
    );
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    assert!(wrong >= WANTED, "only {wrong}");
}
