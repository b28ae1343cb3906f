//! Reads the corpus and earlier findings of fuzzing without a failure.

use std::path::Path;

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
mod fuzz;

#[test]
fn inputs_of_the_fuzz_targets_do_no_harm() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    type Target = fn(&[u8]);
    let targets: [(&str, Target); 4] = [
        ("configuration", fuzz::configuration),
        ("filter", fuzz::filter),
        ("arguments", fuzz::arguments),
        ("xdp", fuzz::xdp),
    ];
    for (target, try_it) in targets {
        let files: Vec<_> = std::fs::read_dir(seeds.join(target)).unwrap().collect();
        assert!(!files.is_empty(), "{target} has no seeds");
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            try_it(&std::fs::read(path).unwrap());
        }
    }
}
