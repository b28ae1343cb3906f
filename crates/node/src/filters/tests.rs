use europa_api::Source;

use super::*;

fn rule(mac: u32) -> Rule {
    let [.., a, b, c] = mac.to_be_bytes();
    let text = format!(
        "{{\"priority\": 1, \"action\": {{\"interface\": \"r.out\", \
         \"destination_mac\": \"02:00:00:{a:02x}:{b:02x}:{c:02x}\"}}}}"
    );
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A slice that uses up its ways gets an error, and other slices keep theirs.
#[test]
fn n06_ways_of_a_slice_are_its_own() {
    let mut filters = Filters::default();
    let most = WAYS_OF_A_SLICE as u32;
    let all = (0..most).map(|number| (number, rule(number))).collect();
    filters.change_own("red", &[], all).expect("its share");
    let more = filters.change_own("red", &[], vec![(most, rule(most)), (most + 1, rule(0))]);
    assert!(matches!(more, Err(FilterError::Ways { .. })), "{:?}", more.err());
    assert_eq!(filters.own("red").count(), most as usize);
    filters.change_own("blue", &[], vec![(1, rule(7))]).expect("others have theirs");
    // A refused change has left no use behind.
    filters.change_own("red", &[0], Vec::new()).expect("it goes");
    filters.tidy();
    filters.change_own("red", &[], vec![(most, rule(most))]).expect("there is room again");
}

/// Entries are counted once for some documents, and compared with what each slice reserves.
#[test]
fn rules_over_a_reservation_are_refused_with_their_document() {
    let rules = |count: usize| "  - {priority: 1, action: drop}\n".repeat(count);
    let text = |red: usize, blue: usize| {
        format!(
            "kind: slice\nname: red\nreservation: {{filters: 3}}\n---\nkind: slice\nname: blue\n---\n\
             kind: filters\nname: a\nslice: red\nrules:\n{}---\n\
             kind: filters\nname: b\nslice: red\nrules:\n{}---\n\
             kind: filters\nname: c\nslice: blue\nrules:\n{}",
            rules(2),
            rules(red),
            rules(blue)
        )
    };
    let check = |text: String| {
        let source = Source { path: "t.yaml".into(), text };
        let documents = europa_api::parse(&[source]).expect("documents");
        let entries = Entries::of(&documents);
        let checked = Index::default().check(&entries);
        checked.err().map(|error| error.to_string())
    };
    assert_eq!(check(text(1, 50)), None);
    let why = check(text(2, 1)).expect("too many");
    let wanted = "slice red may have 3 entries of filters: 2 are used, these need 2 more";
    assert!(why.contains(wanted), "{why}");
}
