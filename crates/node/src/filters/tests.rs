use super::*;

fn rule(mac: u32) -> Rule {
    let [.., a, b, c] = mac.to_be_bytes();
    let text = format!(
        "{{\"priority\": 1, \"action\": {{\"interface\": \"r.out\", \
         \"destination_mac\": \"02:00:00:{a:02x}:{b:02x}:{c:02x}\"}}}}"
    );
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// If a slice uses up its ways, it gets an error, and other slices keep theirs.
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
    // A refused change has left no use of names.
    filters.change_own("red", &[0], Vec::new()).expect("it goes");
    filters.tidy();
    filters.change_own("red", &[], vec![(most, rule(most))]).expect("there is room again");
}
