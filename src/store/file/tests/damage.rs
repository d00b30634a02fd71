//! States that are damaged or inaccessible.

use std::os::unix::fs::symlink;

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
                assert_eq!(exit, Exit::BadState, "byte {byte}");
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
fn no_row_is_altered_unnoticed() {
    let (stage, bytes) = used();
    for (from, to) in [
        (r#""newest":"#, r#""newest":1"#),
        (r#""Sliding":""#, r#""Sliding":"!"#),
        (r#""idle":"#, r#""idle":1"#),
        (r#""limits":"4/10s"#, r#""limits":"4/11s"#),
        (r#""quarantine":null"#, r#""quarantine":1"#),
        (r#""boot":""#, r#""boot":"0"#),
        (r#""sum":""#, r#""sum":"1"#),
    ] {
        stage.write(&bytes);
        let replace = "UPDATE state SET value = replace(value, ?1, ?2) WHERE instr(value, ?1)";
        assert_eq!(stage.sqlite().execute(replace, [from, to]), Ok(1), "{from}");
        assert_eq!(slots_or_refusal(&stage, 2), Err(Exit::BadState), "{to}");
    }
    for change in [
        "UPDATE state SET value = '{}'",
        "UPDATE state SET value = ''",
        "UPDATE state SET key = x'61'",
        "DELETE FROM state",
        "DROP TABLE state",
        "CREATE TRIGGER t AFTER INSERT ON state BEGIN DELETE FROM state; END",
        "PRAGMA user_version = 1000",
    ] {
        stage.write(&bytes);
        stage.sqlite().execute_batch(change).expect("changed");
        assert_eq!(slots_or_refusal(&stage, 2), Err(Exit::BadState), "{change}");
    }
}

#[test]
fn a_full_disk_ends_a_run_and_spoils_nothing() {
    let (stage, _) = used();
    let mut store = stage.open();
    let full = |pages: u32| {
        let connection = &vault(&store).found().connection;
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

/// SQLite does so with a wrong number of pages.
#[test]
fn what_is_damaged_is_not_mended_by_looking_at_it() {
    let (stage, mut bytes) = used();
    let value = bytes.windows(8).rposition(|text| text == b"\"limits\"").expect("a value");
    (bytes[29], bytes[93], bytes[value]) = (4, 4, b'!');
    stage.write(&bytes);
    let vault = FileVault::with(stage.setting.clone(), &stage.path(), stage.clock());
    let found = VaultStore::found(Box::new(vault)).map(|found| found.is_some());
    assert_eq!(found.unwrap_err().exit, Exit::BadState);
    assert!(stage.bytes() == bytes);
}

#[test]
fn what_is_damaged_is_not_mended_by_booking_together() {
    let stage = Stage::new();
    let mut keyed = order(1);
    keyed.key = Key::from_slice(b"k");
    let mut store = stage.open();
    store.book(&keyed).expect("booked");
    drop(store);
    let mut bytes = stage.bytes();
    let select = "SELECT value FROM state WHERE key <> x''";
    let value: String = stage.sqlite().query_row(select, [], |row| row.get(0)).expect("a value");
    let at = bytes.windows(40).position(|text| text == &value.as_bytes()[..40]).expect("it is there");
    (bytes[29], bytes[93], bytes[at + 30]) = (4, 4, b'!');
    stage.write(&bytes);
    let mut store = stage.open();
    assert!(stage.bytes() == bytes);
    assert_eq!(store.book_some(&[keyed]).unwrap_err().exit, Exit::BadState);
    assert!(stage.bytes() == bytes);
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
    let stage = Stage::new();
    stage.open();
    fs::write(stage.beside("-journal"), "").expect("a file");
    fs::set_permissions(stage.beside("-journal"), fs::Permissions::from_mode(0o666)).expect("ours");
    let error = stage.try_open(policy()).err().expect("refused");
    assert!(error.error.to_string().contains("other users have access"), "{error}");
    assert_eq!(error.exit, Exit::BadStore);
}

/// A link that others cannot change.
#[test]
fn the_directory_may_be_a_link() {
    let stage = Stage::new();
    let linked = stage.directory.path().join("linked");
    symlink(".", &linked).expect("a link");
    let open = |path: PathBuf| open_in(stage.setting.clone(), &path, policy(), stage.clock());
    slots(&mut open(linked.join("state")).expect("a state"), 3);
    assert_eq!(slots_or_refusal(&stage, 2), Ok(vec![0, 10]));
}

#[test]
fn what_is_not_there_cannot_be_reset_nor_can_a_state_be_where_there_is_no_directory() {
    let stage = Stage::new();
    assert!(!stage.reset().expect("nothing"));
    let path = stage.directory.path().join("none/state");
    let error = open_in(stage.setting.clone(), &path, policy(), stage.clock()).err().expect("refused");
    assert_eq!(error.exit, Exit::Error);
}
