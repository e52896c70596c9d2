//! Keeps one record of each group of near-duplicates: rows that are connected by similar pairs.

use simjoin::Text;

pub(crate) fn main() -> simjoin::Result<()> {
    let lines = [
        "meeting moved to monday",
        "Meeting moved to Monday!",
        "lunch at noon",
        "meeting moved to monday morning",
        "Lunch at noon?",
    ];
    // For each row, the first row of its group.
    let groups = simjoin::self_join(&Text::new(lines)).jaccard(0.75).groups()?;
    let kept: Vec<&str> = (0..)
        .zip(&groups)
        .filter(|(row, group)| row == *group)
        .map(|(row, _)| lines[row as usize])
        .collect();
    println!("{kept:#?}");
    assert_eq!(kept, [lines[0], lines[2]]);
    Ok(())
}
