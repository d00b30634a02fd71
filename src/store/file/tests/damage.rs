//! States that are damaged or inaccessible.

use std::os::unix::fs::symlink;
use std::thread;

use super::*;

/// A state with three of four slots used.
fn used() -> (Stage, Vec<u8>) {
    let stage = Stage::new();
    slots(&mut stage.open(), 3);
    let bytes = stage.bytes();
    (stage, bytes)
}

/// The slots of a state that may be damaged, or the exit status of its refusal.
fn slots_or_refusal(stage: &Stage, count: u64) -> Result<Vec<u64>, Exit> {
    let mut store = stage.try_open(policy()).map_err(|error| error.exit)?;
    let now = now(&store);
    let answer = store.book(&order(count)).map_err(|error| error.exit)?;
    Ok(answer.slots.iter().map(|slot| slot.at.since(now) / SECOND).collect())
}

#[test]
fn no_byte_is_changed_to_anyones_advantage() {
    let (stage, bytes) = used();
    let mut refused = 0;
    for byte in
        (0..bytes.len()).filter(|byte| *byte < 120 || bytes[*byte] != 0 && byte % 3 == 0 || byte % 192 == 0)
    {
        let mut changed = bytes.clone();
        changed[byte] ^= 0x40;
        stage.write(&changed);
        match slots_or_refusal(&stage, 2) {
            Ok(slots) => assert_eq!(slots, [0, 10], "byte {byte}"),
            Err(exit) => {
                // One byte of the header marks the file as read-only.
                let is_refused = exit == Exit::BadState || (exit == Exit::BadStore && byte == 18);
                assert!(is_refused, "byte {byte}: {exit:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 200, "only {refused} were noticed");
}

#[test]
fn what_is_cut_off_is_noticed() {
    let (stage, bytes) = used();
    for length in (0..bytes.len()).step_by(97).chain([1, 15, 16]) {
        stage.write(&bytes[..length]);
        match slots_or_refusal(&stage, 2) {
            // Nothing has been given back yet, so the page of that table is empty.
            Ok(slots) if length + 1024 >= bytes.len() => assert_eq!(slots, [0, 10], "{length} bytes"),
            result => assert_eq!(result, Err(Exit::BadState), "{length} bytes"),
        }
    }
}

#[test]
fn a_log_that_is_cut_off_while_it_is_used_is_damage() {
    let stage = Stage::new();
    let mut stores = [stage.open(), stage.open()];
    stores.iter_mut().for_each(|store| assert_eq!(slots(store, 1), [0]));
    let log = fs::OpenOptions::new().write(true).open(stage.beside("-wal")).expect("a log");
    log.set_len(0).expect("cut off");
    // The last writer has the log in memory; the other one reads it.
    assert_eq!(stores[0].book(&order(1)).unwrap_err().exit, Exit::BadState);
}

/// A state in use, with every slot used and half of its log cut off.
fn cut_in_half(stage: &Stage) -> [FileStore; 2] {
    let mut stores = [stage.open(), stage.open()];
    for turn in 0..4 {
        assert_eq!(slots(&mut stores[turn % 2], 1), [0]);
    }
    let log = fs::OpenOptions::new().write(true).open(stage.beside("-wal")).expect("a log");
    log.set_len(log.metadata().expect("a length").len() / 2).expect("cut off");
    stores
}

/// All files of a state except the index.
fn files(stage: &Stage) -> [Vec<u8>; 2] {
    [stage.path(), stage.beside("-wal")].map(|path| fs::read(path).expect("a file"))
}

/// Two, one or neither of its two users notice; the others end without a look.
#[test]
fn a_log_that_is_cut_in_half_is_damage_for_whoever_comes_next() {
    for noticing in [2, 1, 0] {
        let stage = Stage::new();
        let mut stores = cut_in_half(&stage);
        let before = files(&stage);
        for store in &mut stores[..noticing] {
            assert_eq!(store.book(&order(1)).unwrap_err().exit, Exit::BadState);
        }
        drop(stores);
        // Looking does not hide the damage from the next user.
        for _ in 0..3 {
            stage.refuses(Exit::BadState, "is damaged, and is left unchanged");
        }
        assert!(files(&stage) == before, "it was changed");
        assert!(stage.reset().expect("reset"));
        assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10]);
    }
}

/// If both were opening the state, each would leave it to the other to notice the loss.
#[test]
fn a_log_that_is_cut_in_half_is_noticed_while_somebody_else_has_the_lock_for_a_moment() {
    let stage = Stage::new();
    drop(cut_in_half(&stage));
    let other = fs::File::open(stage.path()).expect("a file");
    other.lock().expect("locked");
    let uses = thread::spawn(move || {
        thread::sleep(Duration::from_millis(10));
        drop(other);
    });
    stage.refuses(Exit::BadState, "is damaged");
    uses.join().expect("unlocked");
}

/// Bookings that had not reached the disk when the machine crashed are lost, not damaged.
#[test]
fn a_log_that_lacks_what_was_booked_before_the_machine_was_started_is_none() {
    let mut stage = Stage::new();
    drop(cut_in_half(&stage));
    stage.setting.clock.boot = "2".to_owned();
    let mut stores = [stage.open(), stage.open()];
    stores.iter_mut().for_each(|store| assert_eq!(slots(store, 1), [0]));
    let log = fs::OpenOptions::new().write(true).open(stage.beside("-wal")).expect("a log");
    log.set_len(100).expect("cut off");
    drop(stores);
    stage.refuses(Exit::BadState, "is damaged");
}

#[test]
fn no_row_is_altered_unnoticed() {
    let (stage, bytes) = used();
    for change in [
        "UPDATE account SET ledger = json_set(ledger, '$.newest', 0)",
        "UPDATE account SET ledger = json_set(ledger, '$.accounts[0].Sliding[0][1]', 0)",
        "UPDATE account SET ledger = '{}'",
        "UPDATE account SET idle = 0",
        "UPDATE account SET sum = sum + 1",
        "DELETE FROM account",
        "UPDATE policy SET header = json_set(header, '$.limits', '4/11s')",
        "UPDATE policy SET header = json_set(header, '$.generation', 0)",
        "UPDATE policy SET header = json_set(header, '$.silent', 1)",
        "UPDATE policy SET header = json_set(header, '$.domain.boot', 0)",
        "UPDATE policy SET header = NULL",
        "DELETE FROM policy",
        "DROP TABLE account",
        "CREATE TRIGGER t AFTER INSERT ON account BEGIN DELETE FROM account; END",
        "PRAGMA user_version = 1000",
    ] {
        stage.write(&bytes);
        stage.sqlite().execute_batch(change).expect("changed");
        assert_eq!(slots_or_refusal(&stage, 2), Err(Exit::BadState), "{change}");
    }
}

/// Wherever a process is killed while it books, either the booking is recorded or nobody has got the slots.
#[test]
fn a_booking_that_is_cut_short_was_either_made_or_not() {
    let stage = Stage::new();
    let mut store = stage.open();
    slots(&mut store, 3);
    let wal = |stage: &Stage| fs::read(stage.beside("-wal")).expect("a log");
    let (file, before) = (stage.bytes(), wal(&stage).len());
    slots(&mut store, 1);
    let all = wal(&stage);
    drop(store);
    for length in (before..all.len()).step_by(100).chain([all.len()]) {
        stage.write(&file);
        fs::write(stage.beside("-wal"), &all[..length]).expect("a log");
        fs::set_permissions(stage.beside("-wal"), fs::Permissions::from_mode(0o600)).expect("ours");
        let next = if length == all.len() { 10 } else { 0 };
        assert_eq!(slots_or_refusal(&stage, 1), Ok(vec![next]), "{length} of {}", all.len());
        // The result is a state like any other.
        assert_eq!(slots_or_refusal(&stage, 1), Ok(vec![10]));
    }
}

#[test]
fn a_full_disk_ends_a_run_and_spoils_nothing() {
    let (stage, _) = used();
    let mut store = stage.open();
    let full = |pages: u32| {
        let connection = &store.database.as_ref().expect("open").connection;
        connection.pragma_update(None, "max_page_count", pages).expect("set");
    };
    full(1);
    let mut quota = order(1);
    quota.key = Key::from_slice(&[7; 3000]);
    let error = store.book(&quota).expect_err("full");
    assert_eq!(error.exit, Exit::Error);
    assert!(error.error.to_string().contains("the disk is full"), "{error}");
    drop(store);
    assert_eq!(slots_or_refusal(&stage, 2), Ok(vec![0, 10]));
}

#[test]
fn what_is_damaged_is_left_as_it_is_until_it_is_reset() {
    let (stage, mut bytes) = used();
    bytes[120..].iter_mut().for_each(|byte| *byte ^= 0x55);
    stage.write(&bytes);
    stage.refuses(
        Exit::BadState,
        "is damaged, and is left unchanged: start a new one with 'throttle --reset-state -s",
    );
    assert!(stage.reset().expect("reset"));
    assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10]);
}

#[test]
fn what_never_was_a_state_is_not_even_reset() {
    let (stage, _) = used();
    let other = stage.directory.path().join("other");
    Connection::open(&other).expect("a database").execute_batch("CREATE TABLE t(x)").expect("made");
    for bytes in [&b"x"[..], b"precious\n", &vec![0; 100_001], &fs::read(other).expect("a database")] {
        stage.write(bytes);
        stage.refuses(Exit::BadState, "this is not a state of throttle");
        assert_eq!(stage.reset().unwrap_err().exit, Exit::BadState);
        assert!(stage.bytes() == bytes);
    }
}

#[test]
fn a_state_that_is_not_ours_alone_is_refused() {
    let stage = Stage::new();
    stage.open();
    fs::rename(stage.path(), stage.directory.path().join("other")).expect("renamed");
    symlink("other", stage.path()).expect("a link");
    stage.refuses(Exit::BadStore, "is a symbolic link");
    assert_eq!(stage.reset().unwrap_err().exit, Exit::BadStore);
}

#[test]
fn nor_may_others_have_access_to_what_is_beside_it() {
    for suffix in ["-wal", "-shm"] {
        let stage = Stage::new();
        stage.open();
        fs::write(stage.beside(suffix), "").expect("a file");
        fs::set_permissions(stage.beside(suffix), fs::Permissions::from_mode(0o666)).expect("ours");
        let error = stage.try_open(policy()).err().expect("refused");
        assert!(error.error.to_string().contains("other users have access"), "{error}");
        assert_eq!(error.exit, Exit::BadStore);
    }
}

/// A link that others cannot change.
#[test]
fn the_directory_may_be_a_link() {
    let stage = Stage::new();
    let linked = stage.directory.path().join("linked");
    symlink(".", &linked).expect("a link");
    let open = |path: PathBuf| FileStore::open_in(stage.setting.clone(), &path, policy(), stage.clock());
    slots(&mut open(linked.join("state")).expect("a state"), 3);
    assert_eq!(slots_or_refusal(&stage, 2), Ok(vec![0, 10]));
}

#[test]
fn what_is_not_there_cannot_be_reset_nor_can_a_state_be_where_there_is_no_directory() {
    let stage = Stage::new();
    assert!(!stage.reset().expect("nothing"));
    let path = stage.directory.path().join("none/state");
    let error =
        FileStore::open_in(stage.setting.clone(), &path, policy(), stage.clock()).err().expect("refused");
    assert_eq!(error.exit, Exit::Error);
}
