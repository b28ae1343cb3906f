//! Tests that the programs pass the verifier of the running kernel. Needs root.
use europa_pool::Geometry;
use europa_substrate::Substrate;

#[test]
fn programs_load_pools_come_and_go_and_nothing_is_left() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let directory = std::env::temp_dir().join(format!("europa-load-{}", std::process::id()));
    let result = std::panic::catch_unwind(|| {
        let mut substrate = Substrate::open(&directory).unwrap();
        let here = europa_port::Namespace::fresh().unwrap();
        substrate.transmit_program(3).unwrap();
        let start = std::time::Instant::now();
        // The loopback device runs the receive program in generic mode.
        let port = substrate
            .attach_port(5, &here, 1, [0; 6], europa_substrate::PortMode::Generic, true)
            .unwrap();
        println!("attach {:?}", start.elapsed());
        for slots in [2, 256, 4096, 8192] {
            for slot_bytes in [2048, 16384] {
                let start = std::time::Instant::now();
                let geometry = Geometry { slots, slot_bytes, interfaces: 2 };
                let pool = substrate.create_pool(geometry).unwrap();
                println!("{geometry:?}: made in {:?}", start.elapsed());
                assert_eq!(substrate.pool_state(pool.id).slots, slots);
                let id = pool.id;
                substrate.retire_pool(&pool).unwrap();
                substrate.delete_pool(pool).unwrap();
                assert_eq!(substrate.pool_state(id).slots, 0);
            }
        }
        substrate.detach_port(port).unwrap();
        drop(substrate);
        Substrate::open(&directory).unwrap();
        // Simulates a former version that did not have this map.
        std::fs::remove_file(directory.join("usual_pools")).unwrap();
        let refused = Substrate::open(&directory).err().unwrap().to_string();
        assert!(refused.contains("no table usual_pools"), "{refused}");
    });
    Substrate::remove(&directory).unwrap();
    assert!(!directory.exists());
    result.unwrap();
}
