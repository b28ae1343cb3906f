use super::*;

#[test]
fn trouble_is_told_with_its_reason() {
    let now = Instant::now();
    let later = now + Duration::from_secs(61);
    let running = |ends: &[Duration]| Seen {
        pid: Some(7),
        last_end: (!ends.is_empty()).then(|| "was killed by signal 9".into()),
        ends: ends.iter().map(|ago| now.checked_sub(*ago).expect("a time")).collect(),
        ..Seen::default()
    };
    let second = Duration::from_secs(1);
    let often = running(&[second, second, second]);
    for (seen, at, wanted) in [
        (Seen::default(), now, None),
        (running(&[]), now, None),
        (running(&[second]), now, None),
        (often.clone(), now, Some("x is started again and again: it was killed by signal 9")),
        (often, later, None),
        (
            Seen { pid: None, ..running(&[second]) },
            now,
            Some("x was killed by signal 9; it is started again"),
        ),
        (
            Seen { failed: true, last_end: Some("ended with code 1".into()), ..Seen::default() },
            now,
            Some("x ended with code 1"),
        ),
        (
            Seen { waits_for: Some("zebra".into()), waits_since: Some(now), ..Seen::default() },
            later,
            Some("x waits for zebra"),
        ),
        (
            Seen { waits_for: Some("zebra".into()), waits_since: Some(now), ..Seen::default() },
            now,
            None,
        ),
    ] {
        assert_eq!(seen.trouble("x", at).as_deref(), wanted, "{seen:?}");
    }
}
