//! Finds titles that are almost the same, whatever their case, order of words and punctuation.

use simjoin::Text;

pub(crate) fn main() -> simjoin::Result<()> {
    let titles = [
        "Pride and Prejudice, Jane Austen",
        "Jane Austen: Pride and Prejudice",
        "Sense and Sensibility, Jane Austen",
        "PRIDE AND PREJUDICE (Jane Austen, 1813)",
    ];
    let mut pairs = simjoin::self_join(&Text::new(titles)).jaccard(0.8).collect()?;
    pairs.sort_by_key(|pair| (pair.left, pair.right));
    for pair in &pairs {
        let [left, right] = [pair.left, pair.right].map(|row| titles[row as usize]);
        println!("{:.2}  {left}  =  {right}", pair.similarity);
    }
    assert_eq!(pairs.len(), 3);
    Ok(())
}
