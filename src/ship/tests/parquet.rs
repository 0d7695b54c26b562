//! Copies in Parquet.

use super::*;

#[test]
fn parquet_has_a_row_a_line_in_the_order_of_time() {
    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    use ::parquet::record::RowAccessor as _;

    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::new(dir.path(), 13);
    let objects = Arc::new(InMemory::new());
    let destination = Destination::of_test("test", Arc::clone(&objects) as Arc<dyn ObjectStore>);
    let options = ShipOptions {
        format: crate::ship::Format::Parquet,
        ..ShipOptions::default()
    };
    for _ in 0..8 {
        for _ in 0..8 {
            log.change();
        }
        let shipped = Shipper::new(&log.store, &destination, options)
            .unwrap()
            .ship();
        shipped.unwrap();
        let here = files(log.store.path());
        let segments = here
            .iter()
            .filter(|(name, _)| !name.contains("seals") && name.contains('/'));
        let expected: BTreeSet<u64> = segments
            .flat_map(|(_, bytes)| bytes.split(|byte| *byte == b'\n'))
            .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
            .map(|line| line["seq"].as_u64().unwrap())
            .collect();
        let metas = list(&objects);
        let mut found = Vec::new();
        for meta in metas
            .iter()
            .filter(|meta| meta.location.as_ref().ends_with(".parquet"))
        {
            let bytes = get(&objects, &meta.location);
            let reader = SerializedFileReader::new(bytes).unwrap();
            let metadata = reader.metadata();
            assert!(
                metadata
                    .row_group(0)
                    .column(0)
                    .offset_index_offset()
                    .is_some()
            );
            assert!(metadata.row_group(0).column(1).statistics().is_some());
            let mut last = (i64::MIN, i64::MIN);
            for row in reader.get_row_iter(None).unwrap() {
                let row = row.unwrap();
                let place = (
                    row.get_timestamp_millis(1).unwrap(),
                    row.get_long(0).unwrap(),
                );
                assert!(last < place, "{}", meta.location);
                last = place;
                found.push(place.1.cast_unsigned());
            }
        }
        let len = found.len();
        assert_eq!(BTreeSet::from_iter(found), expected);
        assert_eq!(len, expected.len(), "each line is one row");
    }
    assert!(destination.verify(None).unwrap()[0].is_clean());
    let pulled = destination.pull(
        None,
        &dir.path().join("x"),
        &crate::ship::Progress::default(),
    );
    assert!(pulled.unwrap_err().to_string().contains("shipped as jsonl"));
}
