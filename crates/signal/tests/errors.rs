//! Messages with a mistake, and the error that answers each.

use std::net::IpAddr;
use std::time::Duration;

use europa_signal::wire::*;
use europa_signal::{
    Adjacency, Admit, Config, Datagram, Demand, Holder, Input, Interface, InterfaceId, Lack, Offer,
    Output, Resource, Route, Signaller, Time,
};

const UP: InterfaceId = InterfaceId(1);
const DOWN: InterfaceId = InterfaceId(2);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A transit router: interface 1 towards the head, 2 towards the tail; 1 MB/s on each.
struct Surroundings {
    held: f64,
}

impl Admit for Surroundings {
    fn exchange(
        &mut self,
        _: InterfaceId,
        _: &Holder,
        old: Option<&Demand>,
        new: Option<&Demand>,
    ) -> Result<(), Lack> {
        let rate = |demand: Option<&Demand>| demand.map_or(0.0, Demand::reserved);
        let after = self.held - rate(old) + rate(new);
        if after > 1e6 && rate(new) > rate(old) {
            return Err(Lack { resource: Resource::Rate, left: 1e6 - self.held });
        }
        self.held = after;
        Ok(())
    }

    fn offer(&self, _: InterfaceId) -> Offer {
        Offer { bandwidth: 1e6, ..Offer::default() }
    }
}

impl Route for Surroundings {
    fn next_hop(&self, to: IpAddr) -> Option<Adjacency> {
        (to == address("192.0.2.9"))
            .then(|| Adjacency { interface: DOWN, address: address("10.2.0.2") })
    }

    fn neighbour_in(&self, node: &AbstractNode) -> Option<Adjacency> {
        match node {
            AbstractNode::Prefix(prefix, 32) if *prefix == address("10.2.0.2") => {
                self.next_hop(address("192.0.2.9"))
            }
            _ => None,
        }
    }

    fn node_of(&self, _: Adjacency) -> Option<IpAddr> {
        None
    }
}

struct Router {
    signaller: Signaller,
    surroundings: Surroundings,
    now: Time,
}

impl Router {
    fn new() -> Self {
        let mut config = Config::new(address("192.0.2.5"), 1);
        config.hello = None;
        for (id, own) in [(UP, "10.1.0.2"), (DOWN, "10.2.0.1")] {
            let (addresses, key) = (vec![address(own)], None);
            config.interfaces.push(Interface { id, addresses, mtu: 1500, colours: 0, key });
        }
        let now = Time::default();
        Self {
            signaller: Signaller::new(config, now),
            surroundings: Surroundings { held: 0.0 },
            now,
        }
    }

    /// Gives the router a message, confirms its orders to the data plane, and returns the messages
    /// that it sends.
    fn hear(&mut self, interface: InterfaceId, message: &Message) -> Vec<(Datagram, Message)> {
        let source = address(if interface == UP { "10.1.0.1" } else { "10.2.0.2" });
        let bytes = message.encode();
        let input = Input::Packet { interface, source, ttl: message.ttl, bytes: &bytes };
        let mut outputs = self.signaller.handle(self.now, input, &mut self.surroundings);
        let mut sent = Vec::new();
        while !outputs.is_empty() {
            let mut more = Vec::new();
            for output in outputs {
                match output {
                    Output::Send(datagram) => {
                        let message = Message::decode(&datagram.bytes).unwrap();
                        sent.push((datagram, message));
                    }
                    Output::Program(program) => {
                        let done = Input::Programmed { ticket: program.ticket, is_done: true };
                        more.extend(self.signaller.handle(self.now, done, &mut self.surroundings));
                    }
                    _ => (),
                }
            }
            outputs = more;
        }
        sent
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.signaller.handle(self.now, Input::Tick, &mut self.surroundings);
    }
}

fn bucket(rate: f32) -> TokenBucket {
    TokenBucket {
        rate: rate.into(),
        depth: 3000.0.into(),
        peak: f32::INFINITY.into(),
        smallest: 64,
        largest: 1400,
    }
}

fn sender() -> Sender {
    Sender { address: address("192.0.2.1"), lsp: 1 }
}

fn session() -> Session {
    Session::new(address("192.0.2.9"), 7, address("192.0.2.1"))
}

/// A valid Path with some additional objects, or with replacements of the same class.
fn path(others: &[Object]) -> Message {
    let mut objects = vec![
        Object::Session(session()),
        Object::Hop(Hop { address: address("10.1.0.1"), handle: 3 }),
        Object::TimeValues(TimeValues { refresh_ms: 30_000 }),
        Object::LabelRequest(LabelRequest { protocol: LabelRequest::IPV4 }),
        Object::SessionAttribute(attribute(4, 4)),
        Object::Sender(sender()),
        Object::Tspec(Tspec(bucket(1e5))),
    ];
    replace(&mut objects, others);
    Message::new(Kind::Path, objects)
}

fn resv(others: &[Object]) -> Message {
    let mut objects = vec![
        Object::Session(session()),
        Object::Hop(Hop { address: address("10.2.0.2"), handle: DOWN.0 }),
        Object::TimeValues(TimeValues { refresh_ms: 30_000 }),
        Object::Style(Style::FixedFilter),
        Object::Flowspec(Flowspec { bucket: bucket(1e5), service: Service::ControlledLoad }),
        Object::Filter(sender()),
        Object::Label(LabelObject(vec![100])),
    ];
    replace(&mut objects, others);
    Message::new(Kind::Resv, objects)
}

fn replace(objects: &mut Vec<Object>, others: &[Object]) {
    for other in others {
        match objects.iter_mut().find(|object| object.class().0 == other.class().0) {
            Some(object) => *object = other.clone(),
            None => objects.push(other.clone()),
        }
    }
}

fn attribute(setup: u8, hold: u8) -> SessionAttribute {
    SessionAttribute { affinity: None, setup, hold, flags: 0, name: Vec::new() }
}

fn causes(sent: &[(Datagram, Message)], kind: Kind) -> Vec<(u8, u16)> {
    let of_kind = sent.iter().filter(|(_, message)| message.kind == kind);
    of_kind
        .flat_map(|(_, message)| &message.objects)
        .filter_map(|object| match object {
            Object::Error(error) => Some((error.cause.code, error.cause.value)),
            _ => None,
        })
        .collect()
}

fn route(hops: Vec<ExplicitHop>) -> Object {
    Object::ExplicitRoute(ExplicitRoute(hops))
}

fn unknown(class: u8, c_type: u8) -> Object {
    Object::Unknown { class, c_type, body: vec![0; 4] }
}

#[test]
fn a_path_that_is_wrong_is_answered_with_the_rfcs_error() {
    let own = ExplicitHop::strict(address("10.1.0.2"));
    let far = address("203.0.113.1");
    let tspec = |bucket| Object::Tspec(Tspec(bucket));
    let nan = f32::NAN;
    let table: Vec<(&str, Object, (u8, u16))> = vec![
        ("class 112 must be understood", unknown(0x70, 1), (13, 0x7001)),
        ("C-Type of LABEL_REQUEST", unknown(19, 2), (14, 0x1302)),
        ("first hop is another", route(vec![ExplicitHop::strict(far)]), (24, 4)),
        ("strict hop is far", route(vec![own.clone(), ExplicitHop::strict(far)]), (24, 2)),
        ("loose hop is nowhere", route(vec![own, ExplicitHop::loose(far)]), (24, 3)),
        ("no route", Object::Session(Session::new(far, 7, address("192.0.2.1"))), (24, 5)),
        (
            "this router is recorded",
            Object::RecordRoute(RecordRoute(vec![RecordedHop::host(address("10.2.0.1"), 0)])),
            (24, 7),
        ),
        ("payload", Object::LabelRequest(LabelRequest { protocol: 0x809b }), (24, 10)),
        ("hold is weaker than setup", Object::SessionAttribute(attribute(3, 4)), (2, 0)),
        ("priority 8", Object::SessionAttribute(attribute(8, 0)), (2, 0)),
        ("r is NaN", tspec(bucket(nan)), (21, 4)),
        ("r is negative", tspec(bucket(-1.0)), (21, 4)),
        ("m is 0", tspec(TokenBucket { smallest: 0, ..bucket(1e5) }), (21, 4)),
        ("M is 0", tspec(TokenBucket { largest: 0, ..bucket(1e5) }), (21, 4)),
        ("p is below r", tspec(TokenBucket { peak: 1.0.into(), ..bucket(1e5) }), (21, 4)),
        ("more than there is", tspec(bucket(2e6)), (1, 2)),
    ];
    for (text, object, wanted) in table {
        let mut router = Router::new();
        let sent = router.hear(UP, &path(&[object]));
        assert_eq!(causes(&sent, Kind::PathErr), [wanted], "{text}: {sent:?}");
        assert_eq!(router.signaller.lsps().count(), 0, "{text}");
        assert_eq!(router.surroundings.held, 0.0, "{text}");
    }
}

#[test]
fn a_router_that_speaks_no_rsvp_on_the_way_is_noticed() {
    let mut router = Router::new();
    let bytes = path(&[]).encode();
    let source = address("10.1.0.1");
    let input = Input::Packet { interface: UP, source, ttl: 254, bytes: &bytes };
    let outputs = router.signaller.handle(router.now, input, &mut router.surroundings);
    let sent = outputs.into_iter().filter_map(|output| match output {
        Output::Send(datagram) => {
            let message = Message::decode(&datagram.bytes).unwrap();
            Some((datagram, message))
        }
        _ => None,
    });
    assert_eq!(causes(&sent.collect::<Vec<_>>(), Kind::PathErr), [(24, 8)]);
}

#[test]
fn a_resv_that_is_wrong_is_answered_with_the_rfcs_error() {
    let flowspec = |bucket| Object::Flowspec(Flowspec { bucket, service: Service::ControlledLoad });
    let other = Sender { address: address("192.0.2.1"), lsp: 2 };
    let elsewhere = Session::new(address("192.0.2.9"), 8, address("192.0.2.1"));
    let guaranteed = |rate: f32| {
        let service = Service::Guaranteed { rate: rate.into(), slack_us: 0 };
        Object::Flowspec(Flowspec { bucket: bucket(1e5), service })
    };
    let table: Vec<(&str, Object, (u8, u16))> = vec![
        ("no path", Object::Session(elsewhere), (3, 0)),
        ("no sender", Object::Filter(other), (4, 0)),
        ("wildcard filter", Object::Style(Style::Other(17)), (6, 0)),
        ("label 1", Object::Label(LabelObject(vec![1])), (24, 6)),
        ("label of 21 bits", Object::Label(LabelObject(vec![0x10_0000])), (24, 6)),
        ("two labels", Object::Label(LabelObject(vec![100, 101])), (24, 6)),
        ("more than there is", flowspec(bucket(2e6)), (1, 2)),
        ("M exceeds the MTU", flowspec(TokenBucket { largest: 9000, ..bucket(1e5) }), (1, 3)),
        ("r is infinite", flowspec(bucket(f32::INFINITY)), (21, 3)),
        ("b is NaN", flowspec(TokenBucket { depth: f32::NAN.into(), ..bucket(1e5) }), (21, 3)),
        ("R is below r", guaranteed(1e4), (21, 3)),
        ("R is infinite", guaranteed(f32::INFINITY), (21, 3)),
        ("class 112 must be understood", unknown(0x70, 1), (13, 0x7001)),
        (
            "the null service of RFC 2997",
            Object::Unknown { class: 9, c_type: 2, body: vec![0, 0, 0, 1, 6, 0, 0, 0] },
            (21, 2),
        ),
    ];
    for (text, object, wanted) in table {
        let mut router = Router::new();
        router.hear(UP, &path(&[]));
        let sent = router.hear(DOWN, &resv(&[object]));
        assert_eq!(causes(&sent, Kind::ResvErr), [wanted], "{text}: {sent:?}");
        assert_eq!(router.surroundings.held, 0.0, "{text}");
        assert_eq!(router.signaller.labels_in_use(), 0, "{text}");
    }
}

#[test]
fn classes_that_may_be_ignored_or_forwarded_are() {
    let mut router = Router::new();
    let sent = router.hear(UP, &path(&[unknown(0x87, 1), unknown(0xc3, 2)]));
    let (datagram, message) = &sent[0];
    assert_eq!((message.kind, datagram.router_alert), (Kind::Path, true));
    assert_eq!(datagram.destination, address("192.0.2.9"));
    assert_eq!(datagram.source, address("192.0.2.1"));
    assert!(message.objects.contains(&unknown(0xc3, 2)));
    assert!(!message.objects.contains(&unknown(0x87, 1)));
}

#[test]
fn a_failed_change_keeps_the_reservation_there_was() {
    let mut router = Router::new();
    router.hear(UP, &path(&[]));
    let sent = router.hear(DOWN, &resv(&[]));
    assert_eq!(sent[0].1.kind, Kind::Resv, "{sent:?}");
    assert_eq!(router.surroundings.held, 1e5);
    let larger = Flowspec { bucket: bucket(2e6), service: Service::ControlledLoad };
    let sent = router.hear(DOWN, &resv(&[Object::Flowspec(larger)]));
    assert_eq!(causes(&sent, Kind::ResvErr), [(1, 2)]);
    let in_place = sent.iter().flat_map(|(_, message)| &message.objects).any(
        |object| matches!(object, Object::Error(error) if error.flags & ErrorSpec::IN_PLACE != 0),
    );
    assert!(in_place);
    assert_eq!(router.surroundings.held, 1e5);
    // A larger Path is refused too, and the former one stays in use.
    let sent = router.hear(UP, &path(&[Object::Tspec(Tspec(bucket(2e6)))]));
    assert_eq!(causes(&sent, Kind::PathErr), [(1, 2)]);
    assert_eq!(router.signaller.lsps().filter(|(_, is_reserved)| *is_reserved).count(), 1);
}

#[test]
fn state_that_is_not_refreshed_goes_after_its_lifetime() {
    let mut router = Router::new();
    router.hear(UP, &path(&[]));
    router.hear(DOWN, &resv(&[]));
    router.wait(Duration::from_millis(157_400));
    assert_eq!((router.signaller.lsps().count(), router.surroundings.held), (1, 1e5));
    router.wait(Duration::from_millis(200));
    assert_eq!((router.signaller.lsps().count(), router.surroundings.held), (0, 0.0));
    assert_eq!(router.signaller.labels_in_use(), 0);
}

#[test]
fn a_better_priority_preempts_a_worse_one() {
    let named = |tunnel: u16, setup, hold, rate: f32| {
        let session = Session::new(address("192.0.2.9"), tunnel, address("192.0.2.1"));
        let flowspec = Flowspec { bucket: bucket(rate), service: Service::ControlledLoad };
        let attribute = Object::SessionAttribute(attribute(setup, hold));
        let path = path(&[Object::Session(session), attribute, Object::Tspec(Tspec(bucket(rate)))]);
        (path, resv(&[Object::Session(session), Object::Flowspec(flowspec)]))
    };
    let mut router = Router::new();
    let (first, first_resv) = named(1, 5, 5, 8e5);
    router.hear(UP, &first);
    router.hear(DOWN, &first_resv);
    // The same priority does not.
    let (equal, _) = named(2, 5, 5, 8e5);
    assert_eq!(causes(&router.hear(UP, &equal), Kind::PathErr), [(1, 2)]);
    let (better, better_resv) = named(3, 4, 4, 8e5);
    assert_eq!(causes(&router.hear(UP, &better), Kind::PathErr), []);
    let sent = router.hear(DOWN, &better_resv);
    assert_eq!(causes(&sent, Kind::PathErr), [(2, 5)]);
    assert_eq!(causes(&sent, Kind::ResvErr), [(12, 0)]);
    assert!(sent.iter().any(|(_, message)| message.kind == Kind::ResvTear));
    assert_eq!(router.surroundings.held, f64::from(8e5_f32));
    let reserved: Vec<u16> = router
        .signaller
        .lsps()
        .filter(|(_, is_reserved)| *is_reserved)
        .map(|(lsp, _)| lsp.session.tunnel)
        .collect();
    assert_eq!(reserved, [3]);
}

#[test]
fn soft_preemption_asks_the_head_first() {
    let flags = SessionAttribute::SOFT_PREEMPTION;
    let soft = Object::SessionAttribute(SessionAttribute { flags, ..attribute(5, 5) });
    let big = |tunnel| {
        let session =
            Object::Session(Session::new(address("192.0.2.9"), tunnel, address("192.0.2.1")));
        let flowspec = Flowspec { bucket: bucket(8e5), service: Service::ControlledLoad };
        let tspec = Object::Tspec(Tspec(bucket(8e5)));
        (session.clone(), tspec, [session, Object::Flowspec(flowspec)])
    };
    let mut router = Router::new();
    let (session, tspec, first) = big(1);
    router.hear(UP, &path(&[session, tspec, soft]));
    router.hear(DOWN, &resv(&first));
    let (session, tspec, second) = big(2);
    router.hear(UP, &path(&[session, tspec, Object::SessionAttribute(attribute(0, 0))]));
    let sent = router.hear(DOWN, &resv(&second));
    assert_eq!(causes(&sent, Kind::PathErr), [(34, 1)]);
    assert_eq!(router.signaller.lsps().filter(|(_, is_reserved)| *is_reserved).count(), 2);
    router.wait(Duration::from_secs(31));
    assert_eq!(router.signaller.lsps().filter(|(_, is_reserved)| *is_reserved).count(), 1);
    assert_eq!(router.surroundings.held, f64::from(8e5_f32));
}

#[test]
fn lsps_that_share_count_the_maximum_and_others_the_sum() {
    for (style, flags, wanted) in [
        (Style::SharedExplicit, SessionAttribute::SHARED_EXPLICIT, 6e5),
        (Style::FixedFilter, 0, 1e6),
    ] {
        let mut router = Router::new();
        for (lsp, rate) in [(1, 4e5_f32), (2, 6e5)] {
            let sender = Sender { lsp, ..sender() };
            let attribute = SessionAttribute { flags, ..attribute(5, 5) };
            let tspec = Object::Tspec(Tspec(bucket(rate)));
            let objects = [Object::Sender(sender), Object::SessionAttribute(attribute), tspec];
            router.hear(UP, &path(&objects));
            let flowspec = Flowspec { bucket: bucket(rate), service: Service::ControlledLoad };
            let label = Object::Label(LabelObject(vec![100 + u32::from(lsp)]));
            let objects =
                [Object::Style(style), Object::Flowspec(flowspec), Object::Filter(sender), label];
            router.hear(DOWN, &resv(&objects));
        }
        assert_eq!(router.surroundings.held, wanted, "{style:?}");
        // The larger reservation is removed; the other keeps its demand.
        let tear = vec![
            Object::Session(session()),
            Object::Hop(Hop { address: address("10.1.0.1"), handle: 3 }),
            Object::Sender(Sender { lsp: 2, ..sender() }),
            Object::Tspec(Tspec(bucket(6e5))),
        ];
        let sent = router.hear(UP, &Message::new(Kind::PathTear, tear));
        assert_eq!(sent[0].1.kind, Kind::PathTear);
        assert_eq!(router.surroundings.held, 4e5, "{style:?}");
    }
}
