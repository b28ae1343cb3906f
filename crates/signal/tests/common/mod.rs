//! Messages with every object.

use std::net::IpAddr;

use europa_signal::wire::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn bucket() -> TokenBucket {
    TokenBucket {
        rate: 2_500_000.0.into(),
        depth: 15_000.0.into(),
        peak: f32::INFINITY.into(),
        smallest: 64,
        largest: 1500,
    }
}

fn attribute(affinity: Option<Affinity>) -> SessionAttribute {
    SessionAttribute { affinity, setup: 4, hold: 3, flags: 0x46, name: b"gold".to_vec() }
}

fn names(is_v6: bool) -> (Object, Object, Sender, Object) {
    let [tail, head, hop] = if is_v6 {
        ["2001:db8::9", "2001:db8::1", "fe80::1"].map(address)
    } else {
        ["192.0.2.9", "192.0.2.1", "198.51.100.1"].map(address)
    };
    let session = Object::Session(Session::new(tail, 7, head));
    let sender = Sender { address: head, lsp: 3 };
    (session, Object::Sender(sender), sender, Object::Hop(Hop { address: hop, handle: 5 }))
}

fn explicit_route(is_v6: bool) -> ExplicitRoute {
    let far = if is_v6 { "2001:db8::4" } else { "192.0.2.4" };
    let mut hops = vec![
        ExplicitHop::strict(address("198.51.100.2")),
        ExplicitHop::loose(address(far)),
        ExplicitHop { is_loose: true, node: AbstractNode::AutonomousSystem(65_000) },
    ];
    let unnumbered = AbstractNode::Unnumbered("192.0.2.5".parse().unwrap(), 12);
    hops.push(ExplicitHop { is_loose: false, node: unnumbered });
    ExplicitRoute(hops)
}

fn record_route(is_v6: bool) -> RecordRoute {
    let own = if is_v6 { "2001:db8::4" } else { "198.51.100.1" };
    let label = RecordedHop::Label { flags: RecordedHop::GLOBAL, c_type: 1, label: 1_048_575 };
    RecordRoute(vec![RecordedHop::host(address(own), 0x10), label])
}

fn path(is_v6: bool) -> Message {
    let (session, sender, _, hop) = names(is_v6);
    let affinity = is_v6.then_some(Affinity { exclude_any: 1, include_any: 2, include_all: 4 });
    let mut adspec = Adspec::new(1e9.into(), 1500);
    adspec.hops = 2;
    adspec.guaranteed = Some(GuaranteedTerms {
        has_break: false,
        total_c: 1500,
        total_d: 120,
        since_c: 1,
        since_d: 2,
    });
    let protocol = if is_v6 { LabelRequest::IPV6 } else { LabelRequest::IPV4 };
    let objects = vec![
        Object::MessageIdAck(MessageIdAck { is_nack: false, epoch: 0xabcdef, id: 1 }),
        Object::MessageIdAck(MessageIdAck { is_nack: true, epoch: 0xabcdef, id: 2 }),
        Object::MessageId(MessageId { flags: 1, epoch: 0x123456, id: 9 }),
        session,
        hop,
        Object::TimeValues(TimeValues { refresh_ms: 30_000 }),
        Object::ExplicitRoute(explicit_route(is_v6)),
        Object::LabelRequest(LabelRequest { protocol }),
        Object::SessionAttribute(attribute(affinity)),
        sender,
        Object::Tspec(Tspec(bucket())),
        Object::Adspec(adspec),
        Object::RecordRoute(record_route(is_v6)),
        Object::RecoveryLabel(RecoveryLabel(17)),
    ];
    Message { flags: Message::REFRESH_REDUCTION, ..Message::new(Kind::Path, objects) }
}

fn flow(style: Style, service: Service, sender: Sender, is_v6: bool) -> Vec<Object> {
    vec![
        Object::Style(style),
        Object::Flowspec(Flowspec { bucket: bucket(), service }),
        Object::Filter(sender),
        Object::Label(LabelObject(vec![100_000])),
        Object::RecordRoute(record_route(is_v6)),
    ]
}

fn resv(is_v6: bool, style: Style, service: Service) -> Message {
    let (session, _, sender, hop) = names(is_v6);
    let Object::Hop(receiver) = hop.clone() else { unreachable!() };
    let mut objects = vec![session, hop, Object::TimeValues(TimeValues { refresh_ms: 30_000 })];
    objects.push(Object::Confirm(Confirm(receiver.address)));
    objects.extend(flow(style, service, sender, is_v6));
    Message::new(Kind::Resv, objects)
}

fn error(is_v6: bool, cause: Cause) -> Object {
    let node = address(if is_v6 { "2001:db8::4" } else { "192.0.2.4" });
    Object::Error(ErrorSpec { node, flags: ErrorSpec::IN_PLACE, cause })
}

fn others(is_v6: bool) -> Vec<Message> {
    let (session, sender, filter, hop) = names(is_v6);
    let tspec = Object::Tspec(Tspec(bucket()));
    let style = Object::Style(Style::SharedExplicit);
    let flowspec =
        Object::Flowspec(Flowspec { bucket: bucket(), service: Service::ControlledLoad });
    let filter = Object::Filter(filter);
    let receiver = address(if is_v6 { "2001:db8::9" } else { "192.0.2.9" });
    let of = |kind, objects: &[&Object]| {
        Message::new(kind, objects.iter().map(|object| (*object).clone()).collect())
    };
    let (path_error, resv_error) =
        (error(is_v6, Cause::BAD_STRICT), error(is_v6, Cause::BANDWIDTH));
    let confirmed = error(is_v6, Cause { code: 0, value: 0 });
    let confirm = Object::Confirm(Confirm(receiver));
    vec![
        of(Kind::PathErr, &[&session, &path_error, &sender, &tspec]),
        of(Kind::ResvErr, &[&session, &hop, &resv_error, &style, &flowspec, &filter]),
        of(Kind::PathTear, &[&session, &hop, &sender, &tspec]),
        of(Kind::ResvTear, &[&session, &hop, &style, &filter]),
        of(Kind::ResvConf, &[&session, &confirmed, &confirm, &style, &flowspec, &filter]),
    ]
}

fn of_neighbours() -> Vec<Message> {
    let hello = |is_ack| {
        Message::new(
            Kind::Hello,
            vec![
                Object::Hello(Hello { is_ack, source: 0x1234, destination: 0x5678 }),
                Object::RestartCap(RestartCap { restart_ms: 10_000, recovery_ms: 20_000 }),
                Object::Capability(Capability(0x1f)),
            ],
        )
    };
    let ack = |id| Object::MessageIdAck(MessageIdAck { is_nack: id == 2, epoch: 1, id });
    let list = Object::MessageIdList(MessageIdList { epoch: 0x123456, ids: vec![9, 10, 11] });
    let bundle = Message { parts: others(false), ..Message::new(Kind::Bundle, vec![]) };
    vec![
        hello(false),
        hello(true),
        Message::new(Kind::Ack, vec![ack(1), ack(2)]),
        Message::new(Kind::Srefresh, vec![list]),
        bundle,
    ]
}

/// Messages with authentication objects; tshark supports only their class.
fn of_authentication() -> Vec<Message> {
    let challenge = Object::Challenge(Challenge { key: 0x0102_0304_0506, cookie: vec![9; 16] });
    let integrity =
        Integrity { flags: 1, key: 0x0102_0304_0506, sequence: 77, digest: vec![7; 16] };
    vec![
        Message::new(Kind::Challenge, vec![challenge.clone()]),
        Message::new(Kind::ChallengeResponse, vec![Object::Integrity(integrity), challenge]),
    ]
}

/// At least one message of each type; each object is in one of them.
pub(crate) fn messages() -> Vec<Message> {
    let guaranteed = Service::Guaranteed { rate: 3e6.into(), slack_us: 100 };
    let mut all = Vec::new();
    for is_v6 in [false, true] {
        all.push(path(is_v6));
        all.push(resv(is_v6, Style::FixedFilter, Service::ControlledLoad));
        all.push(resv(is_v6, Style::SharedExplicit, guaranteed));
        all.extend(others(is_v6));
        all.push(Message { kind: Kind::RecoveryPath, ..path(is_v6) });
    }
    all.extend(of_neighbours());
    all.extend(of_authentication());
    all
}
